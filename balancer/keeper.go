package balancer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"time"
)

// suspectFor is how long a replica that vanished with many others stays.
const suspectFor = 5 * time.Minute

// Keeper stands between a source of endpoints and a pool, and disbelieves what
// looks like the source's own trouble: an empty list changes nothing, and of a
// list that has suddenly lost half or more the missing ones stay for a while as
// suspects. With a path it keeps the last good list on disk, for a start while
// the source is away. It is for one goroutine.
type Keeper struct {
	path     string
	kept     []Endpoint
	suspects map[string]time.Time // by URL: until when
}

// NewKeeper makes a keeper; an empty path keeps nothing on disk.
func NewKeeper(path string) *Keeper {
	return &Keeper{path: path, suspects: map[string]time.Time{}}
}

// Restore returns the list that was kept on disk last. Without one it returns
// none and no error.
func (k *Keeper) Restore() ([]Endpoint, error) {
	if k.path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(k.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("kept replicas: %w", err)
	}
	var file keeperFile
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("kept replicas: %s: %w", k.path, err)
	}
	k.kept = file.Endpoints
	return k.kept, nil
}

// Take weighs a list that the source has given, and returns the one to use and
// whether that differs from the last. An error is one of keeping it on disk,
// and does not touch the list.
func (k *Keeper) Take(next []Endpoint, now time.Time) (list []Endpoint, changed bool, err error) {
	if len(next) == 0 {
		return k.kept, false, nil
	}
	list = append(list, next...)
	there := make(map[string]bool, len(next))
	for _, e := range next {
		there[e.URL] = true
	}
	trusted := 0
	for _, e := range k.kept {
		if e.Held != HeldSuspect {
			trusted++
		}
	}
	sudden := len(next)*2 <= trusted
	for _, e := range k.kept {
		if s, ok := k.suspect(e, sudden, now); ok && !there[e.URL] {
			list = append(list, s)
		}
	}
	changed = !reflect.DeepEqual(list, k.kept)
	k.kept = list
	if changed {
		err = k.save(now)
	}
	return list, changed, err
}

// suspect tells whether an endpoint that is missing stays, and as what.
func (k *Keeper) suspect(e Endpoint, sudden bool, now time.Time) (Endpoint, bool) {
	if e.Held == HeldSuspect {
		until, known := k.suspects[e.URL]
		if !known { // from the disk
			until = now.Add(suspectFor)
			k.suspects[e.URL] = until
		}
		return e, now.Before(until)
	}
	if !sudden || e.Held != HeldNot {
		return e, false
	}
	k.suspects[e.URL] = now.Add(suspectFor)
	e.Held, e.Why = HeldSuspect, "vanished with many others"
	return e, true
}

type keeperFile struct {
	Saved     time.Time  `json:"saved"`
	Endpoints []Endpoint `json:"endpoints"`
}

// save replaces the file in one step, so that a crash leaves the old or the new.
func (k *Keeper) save(now time.Time) error {
	if k.path == "" {
		return nil
	}
	text, err := json.MarshalIndent(keeperFile{now.UTC(), k.kept}, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(k.path), ".replicas-*")
	if err != nil {
		return fmt.Errorf("kept replicas: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // nothing is there any more after the rename
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), k.path)
	}
	if err != nil {
		return fmt.Errorf("kept replicas: %w", err)
	}
	return nil
}
