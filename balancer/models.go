package balancer

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Model is one of the names that a replica answers to.
type Model struct {
	ID          string `json:"id"`
	Root        string `json:"root,omitempty"`
	Parent      string `json:"parent,omitempty"` // of a LoRA adapter: the model it adapts
	MaxModelLen int    `json:"max_model_len,omitempty"`
}

// served is what a replica serves.
type served struct {
	models  []Model
	hearsay bool // the source said so, not the replica
}

// Models are the names that the replica answers to, as far as is known.
func (r *Replica) Models() []Model {
	if s := r.served.Load(); s != nil {
		return s.models
	}
	return nil
}

// Adapters are the LoRA adapters that at least one replica of the pool serves.
func (p *Pool) Adapters() []string {
	var names []string
	for _, r := range p.Replicas() {
		for _, m := range r.Models() {
			if m.Parent != "" && !slices.Contains(names, m.ID) {
				names = append(names, m.ID)
			}
		}
	}
	slices.Sort(names)
	return names
}

// Serves reports whether a replica of the pool is known to serve the name.
func (p *Pool) Serves(name string) bool {
	return slices.ContainsFunc(p.Replicas(), func(r *Replica) bool { return r.serves(name) })
}

// ParseModels reads the answer of /v1/models.
func ParseModels(page []byte) ([]Model, error) {
	var list struct {
		Data []Model `json:"data"`
	}
	if err := json.Unmarshal(page, &list); err != nil {
		return nil, fmt.Errorf("/v1/models: %w", err)
	}
	return list.Data, nil
}

func (r *Replica) serves(name string) bool {
	for i, models := 0, r.Models(); i < len(models); i++ {
		if models[i].ID == name {
			return true
		}
	}
	return false
}

// missing says which of the promised names the replica does not serve; it is
// empty if it serves all, or if it is not known what it serves.
func (r *Replica) missing(promised []string) string {
	s := r.served.Load()
	if s == nil {
		return ""
	}
	var lacks []string
	for _, name := range promised {
		if !r.serves(name) {
			lacks = append(lacks, name)
		}
	}
	if len(lacks) == 0 {
		return ""
	}
	names := make([]string, len(s.models))
	for i, m := range s.models {
		names[i] = m.ID
	}
	return fmt.Sprintf("does not serve %s but %s", strings.Join(lacks, ", "), strings.Join(names, ", "))
}

// heard takes over what the source says that the replica serves, as long as the
// replica itself has said nothing.
func (r *Replica) heard(names []string) {
	if s := r.served.Load(); s != nil && !s.hearsay {
		return
	}
	if len(names) == 0 {
		r.served.Store(nil)
		return
	}
	s := &served{hearsay: true}
	for _, name := range names {
		s.models = append(s.models, Model{ID: name})
	}
	r.served.Store(s)
}

func (w *watcher) modelsDue() bool {
	r := w.replica
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.check.modelsAt == 0 || r.clock()-r.check.modelsAt > int64(modelsEvery)
}

// learnModels asks what the replica serves. If that cannot be learned it stays
// as it was: the replica is not held out for it, but says so when asked.
func (w *watcher) learnModels(ctx context.Context) {
	r := w.replica
	status, page, err := w.get(ctx, "/v1/models", checkTimeout)
	if ctx.Err() != nil {
		return
	}
	if err == nil && status != http.StatusOK {
		err = statusError(status)
	}
	var models []Model
	if err == nil {
		models, err = ParseModels(page)
	}
	r.mu.Lock()
	r.check.modelsAt, r.check.noModels = r.clock(), ""
	if err != nil {
		r.check.noModels = err.Error()
	}
	r.mu.Unlock()
	if err == nil {
		r.served.Store(&served{models: models})
		w.pool.hold(r, holdModel, r.missing(w.pool.options.Load().Models))
	}
}
