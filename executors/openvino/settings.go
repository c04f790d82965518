package openvino

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
)

// Settings is the configuration executors.openvino of the agent.
type Settings struct {
	// Devices is the order in which AUTO looks for a device. Default (nil) NPU,
	// GPU, CPU, of which it says nothing where the machine has none; of those
	// that somebody names here each one that is missing is a warning.
	Devices []string `json:"devices"`

	// InputRoots are the folders below which image_path may point. Default
	// /data.
	InputRoots executors.InputRoots `json:"input_roots"`

	// ModelAliases gives models further names, for example yolov8 to
	// ssd-mobilenet-v2. Results name the real model. Default none.
	ModelAliases map[string]string `json:"model_aliases"`

	// EmbedModel, DetectModel and OCRModel are used where a task names none.
	EmbedModel  string `json:"embed_model"`
	DetectModel string `json:"detect_model"`
	OCRModel    string `json:"ocr_model"`

	// MaxLoadedMB is how much memory loaded models may take, estimated from
	// their files. The least recently used go first. Default 2048.
	MaxLoadedMB int64 `json:"max_loaded_mb"`

	// IdleUnload frees a model that nobody used for so long; 0 keeps it.
	// Default 10m.
	IdleUnload time.Duration `json:"idle_unload"`

	// LoadTimeout bounds the loading of a model. Default 5m.
	LoadTimeout time.Duration `json:"load_timeout"`

	// Cooldown is how long a lost device is not used. Default 1m.
	Cooldown time.Duration `json:"cooldown"`

	// CacheMB bounds the compiled models on disk. Default 4096.
	CacheMB int64 `json:"cache_mb"`

	// Threads bounds the processors of an inference; 0 uses all.
	Threads int `json:"threads"`

	// Slots is how many inferences of one model run side by side, 1..64.
	// Default 1: on a processor more are slower each.
	Slots int `json:"slots"`

	// Concurrency is how many tasks are taken at once, 1..256. Those that wait
	// for the same model are put into one inference where they can. Default 64.
	Concurrency int `json:"concurrency"`

	// MaxBatch is how many texts go into one inference, 1..256. Default 32.
	MaxBatch int `json:"max_batch"`

	// EmbedCache is how many vectors are remembered, and EmbedCacheTTL for how
	// long. Default 1000 and 1h; 0 remembers none.
	EmbedCache    int           `json:"embed_cache"`
	EmbedCacheTTL time.Duration `json:"embed_cache_ttl"`
}

// DefaultSettings returns the settings of an executor that nobody configured.
func DefaultSettings() Settings {
	return Settings{
		InputRoots: executors.InputRoots{"/data"},
		EmbedModel: "all-minilm-l6-v2", DetectModel: "ssd-mobilenet-v2", OCRModel: "pp-ocr-v4",
		MaxLoadedMB: 2048, IdleUnload: 10 * time.Minute, LoadTimeout: 5 * time.Minute, Cooldown: time.Minute, CacheMB: 4096,
		Slots: 1, Concurrency: 64, MaxBatch: 32, EmbedCache: 1000, EmbedCacheTTL: time.Hour,
	}
}

var deviceName = regexp.MustCompile(`^(CPU|NPU|GPU)(\.\d{1,2})?$`)

// Validate reports everything that is wrong with s at once.
func (s Settings) Validate() error {
	var errs []error
	bad := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("executors.openvino."+key+": "+format, args...))
	}
	between := func(key string, v, low, high int64) {
		if v < low || v > high {
			bad(key, "%d must be between %d and %d", v, low, high)
		}
	}
	if s.Devices != nil && len(s.Devices) == 0 {
		bad("devices", "must name at least one device")
	}
	for i, d := range s.Devices {
		if !deviceName.MatchString(d) {
			bad(fmt.Sprintf("devices[%d]", i), "%q must be NPU, GPU, CPU, or one with a number such as GPU.1", d)
		}
	}
	if err := s.InputRoots.Validate(); err != nil {
		bad("input_roots", "%v", err)
	}
	for _, alias := range slices.Sorted(maps.Keys(s.ModelAliases)) {
		if !engines.ValidName(alias) || !engines.ValidName(s.ModelAliases[alias]) {
			bad("model_aliases", "%q: %q: names of models have 1 to 64 of a-z, 0-9, dot, dash and underscore", alias, s.ModelAliases[alias])
		}
	}
	for key, name := range map[string]string{"embed_model": s.EmbedModel, "detect_model": s.DetectModel, "ocr_model": s.OCRModel} {
		if !engines.ValidName(name) {
			bad(key, "%q is not the name of a model", name)
		}
	}
	between("max_loaded_mb", s.MaxLoadedMB, 64, 1<<20)
	between("cache_mb", s.CacheMB, 0, 1<<20)
	between("threads", int64(s.Threads), 0, int64(max(1024, runtime.NumCPU())))
	between("slots", int64(s.Slots), 1, 64)
	between("concurrency", int64(s.Concurrency), 1, 256)
	between("max_batch", int64(s.MaxBatch), 1, 256)
	between("embed_cache", int64(s.EmbedCache), 0, 1<<20)
	for key, d := range map[string]time.Duration{"idle_unload": s.IdleUnload, "cooldown": s.Cooldown, "embed_cache_ttl": s.EmbedCacheTTL} {
		if d < 0 {
			bad(key, "%s must not be negative", d)
		}
	}
	if s.LoadTimeout < time.Second {
		bad("load_timeout", "%s must be at least 1s", s.LoadTimeout)
	}
	return errors.Join(errs...)
}
