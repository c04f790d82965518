package playwright

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

// Limits of the settings.
const (
	maxConcurrency = 8 // contexts at work in one browser
	mib            = 1 << 20
)

// Settings is the configuration executors.playwright of the agent.
type Settings struct {
	// DriverDir holds the Playwright driver in package/. Default: the newest
	// one in the engines folder.
	DriverDir string `json:"driver_dir"`

	// NodePath is node, version 20 or newer. Default: the machine's, else the
	// one in the engines folder.
	NodePath string `json:"node_path"`

	// BrowserPath is the headless shell of Chromium, the program itself and
	// no script around it. Default: where Debian puts it.
	BrowserPath string `json:"browser_path"`

	// BrowserUser is the user that node and the browser run as when this
	// process is root. Default autobot-browser. Without that user they run as
	// root, and Chromium then has no sandbox.
	BrowserUser string `json:"browser_user"`

	// Guard is how the browser is kept to its proxy: namespace puts it into a
	// network namespace where there is nothing else, which needs CAP_SYS_ADMIN;
	// flags relies on the browser's own settings; auto, the default, takes
	// namespace where that is possible.
	Guard string `json:"guard"`

	// Concurrency is how many tasks run at once, 1..8. Default: the number of
	// processors, at most 8.
	Concurrency int `json:"concurrency"`

	// Allow names what pages may reach although it is not public: a host, a
	// host:port, an address, or a network such as 10.0.0.0/8. Default: none.
	Allow []string `json:"allow"`

	// Ports may be reached on public addresses. Default 80, 443, 8080, 8443.
	Ports []int `json:"ports"`

	// OnlyListed refuses public addresses too, unless Allow lists them.
	// Default false.
	OnlyListed bool `json:"only_listed"`

	// AllowEvaluate permits the step evaluate. Default false.
	AllowEvaluate bool `json:"allow_evaluate"`

	// AllowData permits data: addresses in navigate. Default false.
	AllowData bool `json:"allow_data"`

	// CookieValues lets the step get_cookies return values. Default false.
	CookieValues bool `json:"cookie_values"`

	// InputRoots are the folders below which the step upload may read.
	// Default: /data.
	InputRoots executors.InputRoots `json:"input_roots"`

	// Search is the engine behind the operation search. Default: none.
	Search SearchSettings `json:"search"`

	// MaxPageBytes is what one task may receive, 1 MiB..1 GiB. Default 50 MiB.
	MaxPageBytes int64 `json:"max_page_bytes"`

	// MaxDownloadBytes is what one task with a step download may receive, and
	// the largest file it keeps, 1 MiB..1 GiB. Default 100 MiB.
	MaxDownloadBytes int64 `json:"max_download_bytes"`

	// MaxRequests is how many requests one task may make, 1..100000. Default 1000.
	MaxRequests int `json:"max_requests"`

	// RendererMemory is what one page's process may hold, in bytes, at least
	// 128 MiB. Beyond it the page is ended. Default 1 GiB.
	RendererMemory int64 `json:"renderer_memory"`

	// Recycle says when browser and driver are replaced.
	Recycle RecycleSettings `json:"recycle"`
}

// SearchSettings describe a search engine by its page of results.
type SearchSettings struct {
	// URL is the address of a result page, with {query} in it.
	URL string `json:"url"`

	// Result selects one element for each result; the others are looked for
	// inside of it. Link defaults to its first a[href], Title to Link.
	Result  string `json:"result"`
	Title   string `json:"title"`
	Link    string `json:"link"`
	Snippet string `json:"snippet"`
}

// RecycleSettings say when a browser, or the driver, is replaced by a fresh
// one. What runs in the old one runs to its end there.
type RecycleSettings struct {
	Tasks         int           `json:"tasks"`          // of one browser. Default 100
	Age           time.Duration `json:"age"`            // of one browser. Default 30m
	Memory        int64         `json:"memory"`         // of one browser's processes together, bytes. Default 2 GiB
	DriverTasks   int           `json:"driver_tasks"`   // of one driver. Default 1000
	DriverMemory  int64         `json:"driver_memory"`  // of the driver, bytes. Default 350 MiB
	CheckInterval time.Duration `json:"check_interval"` // of the memory. Default 1s
}

// DefaultSettings returns the settings of an executor that nobody configured.
func DefaultSettings() Settings {
	return Settings{
		BrowserUser:      "autobot-browser",
		Guard:            "auto",
		Concurrency:      min(maxConcurrency, runtime.GOMAXPROCS(0)),
		InputRoots:       executors.InputRoots{"/data"},
		MaxPageBytes:     50 * mib,
		MaxDownloadBytes: 100 * mib,
		MaxRequests:      1000,
		RendererMemory:   1024 * mib,
		Recycle: RecycleSettings{
			Tasks: 100, Age: 30 * time.Minute, Memory: 2048 * mib,
			DriverTasks: 1000, DriverMemory: 350 * mib, CheckInterval: time.Second,
		},
	}
}

var userGrammar = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)

// Validate reports everything that is wrong with s at once.
func (s Settings) Validate() error {
	var errs []error
	bad := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("executors.playwright.%s: %s", key, fmt.Sprintf(format, args...)))
	}
	within := func(key string, n, low, high int64) {
		if n < low || n > high {
			bad(key, "%d must be between %d and %d", n, low, high)
		}
	}
	for key, path := range map[string]string{"driver_dir": s.DriverDir, "node_path": s.NodePath, "browser_path": s.BrowserPath} {
		if path != "" && !filepath.IsAbs(path) {
			bad(key, "%q must be an absolute path", path)
		}
	}
	if err := s.InputRoots.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("executors.playwright: %w", err))
	}
	if !userGrammar.MatchString(s.BrowserUser) {
		bad("browser_user", "%q must match %s", s.BrowserUser, userGrammar)
	}
	if s.Guard != "auto" && s.Guard != string(egress.ModeNamespace) && s.Guard != string(egress.ModeFlags) {
		bad("guard", "%q must be auto, namespace or flags", s.Guard)
	}
	within("concurrency", int64(s.Concurrency), 1, maxConcurrency)
	within("max_page_bytes", s.MaxPageBytes, mib, 1024*mib)
	within("max_download_bytes", s.MaxDownloadBytes, mib, 1024*mib)
	within("max_requests", int64(s.MaxRequests), 1, 100_000)
	within("renderer_memory", s.RendererMemory, 128*mib, 1<<40)
	within("recycle.tasks", int64(s.Recycle.Tasks), 1, 1_000_000)
	within("recycle.driver_tasks", int64(s.Recycle.DriverTasks), 1, 1_000_000)
	within("recycle.memory", s.Recycle.Memory, 256*mib, 1<<40)
	within("recycle.driver_memory", s.Recycle.DriverMemory, 128*mib, 1<<40)
	if s.Recycle.Age < time.Second {
		bad("recycle.age", "%s must be at least 1s", s.Recycle.Age)
	}
	if s.Recycle.CheckInterval < 50*time.Millisecond || s.Recycle.CheckInterval > time.Minute {
		bad("recycle.check_interval", "%s must be between 50ms and 1m", s.Recycle.CheckInterval)
	}
	if _, err := egress.ParsePolicy(s.Allow, s.Ports); err != nil {
		errs = append(errs, fmt.Errorf("executors.playwright: %w", err))
	}
	return errors.Join(append(errs, s.Search.validate())...)
}

// configured reports whether there is a search engine.
func (s SearchSettings) configured() bool { return s.URL != "" && s.Result != "" }

func (s SearchSettings) validate() error {
	if s == (SearchSettings{}) {
		return nil
	}
	const key = "executors.playwright.search."
	switch u, err := url.Parse(strings.ReplaceAll(s.URL, "{query}", "x")); {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return fmt.Errorf("%surl: %q must be an address that begins with http:// or https://", key, s.URL)
	case !strings.Contains(s.URL, "{query}"):
		return fmt.Errorf("%surl: %q must have {query} where the words go", key, s.URL)
	case s.Result == "":
		return fmt.Errorf("%sresult: is needed, the selector of one result", key)
	}
	return nil
}
