package certs

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// lookEvery is how often the files are looked at, at the most.
const lookEvery = time.Second

// watched is something that is made of files, and made anew when they change.
// It has no goroutine: who asks for it looks.
type watched[T any] struct {
	load    func() (*T, error)
	trouble func(error)
	files   []string
	now     atomic.Pointer[T]
	next    atomic.Int64 // when to look again, Unix nanoseconds

	mu    sync.Mutex // held while looking
	used  string     // the state of the files that now was made of
	tried string     // and of those that were last tried
}

// watch loads for the first time.
func watch[T any](load func() (*T, error), trouble func(error), files ...string) (*watched[T], error) {
	w := &watched[T]{load: load, trouble: trouble, files: files}
	w.used = w.state() // before loading: a change meanwhile is seen later
	w.tried = w.used
	made, err := load()
	if err != nil {
		return nil, err
	}
	w.now.Store(made)
	return w, nil
}

// get returns what was made last.
func (w *watched[T]) get() *T {
	now := time.Now().UnixNano()
	if next := w.next.Load(); now >= next && w.next.CompareAndSwap(next, now+int64(lookEvery)) {
		w.look()
	}
	return w.now.Load()
}

// look loads again if the files are not those that were used. While they cannot
// be used, it tries at each look: the second of two files may be on its way.
func (w *watched[T]) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	state := w.state()
	if state == w.used {
		return
	}
	made, err := w.load()
	if err == nil {
		w.now.Store(made)
		w.used = state
	} else if state != w.tried && w.trouble != nil {
		w.trouble(fmt.Errorf("%s: changed files cannot be used, the last good ones stay: %w", w.files[0], err))
	}
	w.tried = state
}

// state tells apart what the files hold, without reading them.
func (w *watched[T]) state() string {
	var b strings.Builder
	for _, name := range w.files {
		if name == "" {
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			fmt.Fprintf(&b, "%v;", err)
			continue
		}
		fmt.Fprintf(&b, "%d %d %d;", info.ModTime().UnixNano(), info.Size(), inode(info))
	}
	return b.String()
}

// inode tells a file from another that was moved to its name.
func inode(info os.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino
	}
	return 0
}
