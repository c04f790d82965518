package host

import (
	"os"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
)

// dirWatcher hears of changes in the executor folders. It may miss some (a
// folder that did not exist, a network file system): the poll finds those.
type dirWatcher struct {
	log   *zap.Logger
	w     *fsnotify.Watcher // nil where the system gives us none
	dirs  []string
	known map[string]os.FileInfo
	heard chan struct{}
	done  chan struct{}
}

func newDirWatcher(dirs []string, log *zap.Logger) *dirWatcher {
	d := &dirWatcher{
		log: log, dirs: dirs, known: map[string]os.FileInfo{},
		heard: make(chan struct{}, 1), done: make(chan struct{}),
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("new executors will be noticed by polling only: no file events (raise fs.inotify.max_user_instances)", zap.Error(err))
		close(d.done)
		return d
	}
	d.w = w
	go d.run()
	d.renew()
	return d
}

func (d *dirWatcher) run() {
	defer close(d.done)
	for {
		select {
		case _, ok := <-d.w.Events:
			if !ok {
				return
			}
		case err, ok := <-d.w.Errors:
			if !ok {
				return
			}
			d.log.Debug("file events were lost; looking for myself", zap.Error(err))
		}
		select {
		case d.heard <- struct{}{}:
		default:
		}
	}
}

func (d *dirWatcher) events() <-chan struct{} { return d.heard }

// renew watches folders that have appeared or have been replaced since.
func (d *dirWatcher) renew() {
	if d.w == nil {
		return
	}
	for _, dir := range d.dirs {
		info, err := os.Stat(dir)
		if err != nil {
			delete(d.known, dir)
			continue
		}
		if old := d.known[dir]; old != nil && os.SameFile(old, info) {
			continue
		}
		_ = d.w.Remove(dir) // the watch of the folder that was there before, if any
		if err := d.w.Add(dir); err != nil {
			d.log.Warn("changes in an executor folder will be noticed by polling only", zap.String("path", dir), zap.Error(err))
		}
		d.known[dir] = info
	}
}

func (d *dirWatcher) close() {
	if d.w != nil {
		_ = d.w.Close()
	}
	<-d.done
}
