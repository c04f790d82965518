package openvino

import (
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
)

// memoryFactor is how much more memory a loaded model takes than its files, as
// measured on the models in the catalogue.
const memoryFactor = 2

// estimate is the memory that one file of a model will take. The weights of an
// IR model are in a second file.
func estimate(card engines.Card, name string) int64 {
	size := int64(0)
	for _, f := range card.Files {
		if f.Name == name || f.Name == weightsOf(card, name) {
			size += f.Size * memoryFactor
		}
	}
	return size
}

// weightsOf names the file beside an IR model, "" for other formats.
func weightsOf(card engines.Card, name string) string {
	if card.Format != engines.FormatIR || len(name) < 4 {
		return ""
	}
	return name[:len(name)-len(".xml")] + ".bin"
}

// makeRoom unloads models that nobody uses, least recently used first, until
// need bytes more fit. Call with mu held.
func (m *models) makeRoom(need int64, name string) error {
	limit := m.settings.MaxLoadedMB << 20
	if need > limit {
		e := executors.Errorf(executors.CodeResourceExhausted, "model %s needs about %d MiB, models may take %d MiB", name, need>>20, limit>>20)
		e.Retryable = false
		e.Hint = "raise executors.openvino.max_loaded_mb"
		return e
	}
	for {
		used := m.leaving
		var oldest *model
		for _, e := range m.loaded {
			used += e.bytes
			if x := e.model; x != nil && x.users == 0 && (oldest == nil || x.last.Before(oldest.last)) {
				oldest = x
			}
		}
		if used+need <= limit {
			return nil
		}
		if oldest == nil {
			e := executors.Errorf(executors.CodeResourceExhausted, "models in use take about %d of %d MiB, model %s needs %d", used>>20, limit>>20, name, need>>20)
			e.Hint = "raise executors.openvino.max_loaded_mb"
			e.Delay = 5 * time.Second
			return e
		}
		m.drop(oldest)
	}
}

// drop takes a model out of the list; it is freed when its last user is done.
// Call with mu held.
func (m *models) drop(x *model) {
	if x.gone {
		return
	}
	if e := m.loaded[x.key]; e != nil && e.model == x {
		delete(m.loaded, x.key)
	}
	x.gone = true
	if x.users == 0 {
		m.wg.Go(x.close)
		return
	}
	m.leaving += x.bytes
}

// dropIf drops the models that match and returns how many there were.
func (m *models) dropIf(match func(key, *model) bool) (n int) {
	for k, e := range m.loaded {
		if e.model != nil && match(k, e.model) {
			m.drop(e.model)
			n++
		}
	}
	return n
}

// supersede drops what k replaces: the same model with other files or another
// card. Call with mu held.
func (m *models) supersede(k key) {
	m.dropIf(func(other key, _ *model) bool { return other != k && other.same(k) })
}

// forget drops every model of a device that was lost.
func (m *models) forget(device string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropIf(func(k key, _ *model) bool { return k.device == device })
}

// unload drops the models with this name and returns how many there were.
func (m *models) unload(name, device string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dropIf(func(k key, _ *model) bool {
		return k.name == name && (device == "" || device == deviceAuto || k.device == device || kind(k.device) == device)
	})
}

// janitor unloads models that nobody used for a while.
func (m *models) janitor() {
	tick := time.NewTicker(max(m.settings.IdleUnload/4, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-m.life.Done():
			return
		case now := <-tick.C:
			m.sweep(now)
		}
	}
}

// sweep unloads what is idle at a time.
func (m *models) sweep(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropIf(func(_ key, x *model) bool { return x.users == 0 && now.Sub(x.last) >= m.settings.IdleUnload })
}
