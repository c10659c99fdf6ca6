package auth

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/rs/zerolog"
)

const (
	maxBodyBytes   = 16 << 10
	defaultOverlap = 24 * time.Hour
)

// API is the key API of the admin listener. Every request needs the admin
// token as a bearer token.
//
//	POST   /admin/keys              {"name", "owner", "plan", "expires_in"}   201
//	GET    /admin/keys?owner=                                                 200
//	DELETE /admin/keys/{id}                                                   200
//	POST   /admin/keys/{id}/rotate  {"overlap"}                               201
//
// Owner is the name if left out. Durations are as ParseLifetime reads them;
// expires_in is for ever if left out, overlap 24 hours. A list is written while
// it is read; one that breaks off midway ends the connection, not the JSON.
type API struct {
	Store      *Store
	Token      string                 // as ReadToken gave it; empty lets nobody in
	PlanExists func(plan string) bool // asked for every new key
	Log        zerolog.Logger         // one line for each change, and for faults of ours
	// Changed, if not nil, is told of each change: "key created", "key rotated",
	// "key revoked".
	Changed func(ctx context.Context, what string, key Key, remote string)
}

// Issued is a new key with its plaintext, which is shown this once.
type Issued struct {
	Key
	Plaintext string `json:"key"`
}

// Handler returns the API, to be mounted under "/admin/keys" and "/admin/keys/".
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /admin/keys", a.create)
	mux.HandleFunc("GET /admin/keys", a.list)
	mux.HandleFunc("DELETE /admin/keys/{id}", a.revoke)
	mux.HandleFunc("POST /admin/keys/{id}/rotate", a.rotate)
	mux.HandleFunc("/admin/keys", notAllowed("GET, POST"))
	mux.HandleFunc("/admin/keys/{id}", notAllowed("DELETE"))
	mux.HandleFunc("/admin/keys/{id}/rotate", notAllowed("POST"))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { errPath.write(w) })
	return RequireToken(a.Token, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
		mux.ServeHTTP(w, r)
	}))
}

func (a *API) create(w http.ResponseWriter, r *http.Request) {
	request, err := a.readRequest(r)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	plaintext, key, err := a.Store.Create(r.Context(), request)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	a.record(r, "key created", key)
	writeJSON(w, http.StatusCreated, Issued{key, plaintext})
}

func (a *API) rotate(w http.ResponseWriter, r *http.Request) {
	overlap, err := readOverlap(r.Body)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	plaintext, key, err := a.Store.Rotate(r.Context(), r.PathValue("id"), overlap, origin(r))
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	a.Log.Info().Str("key", key.ID).Str("owner", key.Owner).Str("follows", r.PathValue("id")).
		Dur("overlap_ms", overlap).Str("remote", r.RemoteAddr).Msg("key rotated")
	a.tell(r, "key rotated", key)
	writeJSON(w, http.StatusCreated, Issued{key, plaintext})
}

func (a *API) revoke(w http.ResponseWriter, r *http.Request) {
	key, err := a.Store.Revoke(r.Context(), r.PathValue("id"))
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	a.record(r, "key revoked", key)
	writeJSON(w, http.StatusOK, key)
}

func (a *API) list(w http.ResponseWriter, r *http.Request) {
	owner, err := readOwner(r)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	started := false
	for key, err := range a.Store.Keys(r.Context(), owner) {
		if err != nil {
			a.breakOff(w, r, err, started)
			return
		}
		writeItem(w, key, started)
		started = true
	}
	if !started {
		writeHead(w)
	}
	_, _ = io.WriteString(w, "]}\n")
}

// breakOff ends a list that has begun by cutting the connection: a JSON that
// ended well would look complete.
func (a *API) breakOff(w http.ResponseWriter, r *http.Request, err error, started bool) {
	if !started {
		a.refuse(w, r, err)
		return
	}
	a.Log.Error().Err(err).Msg("list of keys broke off")
	panic(http.ErrAbortHandler)
}

func writeHead(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, `{"object":"list","data":[`)
}

func writeItem(w http.ResponseWriter, key Key, started bool) {
	if started {
		_, _ = io.WriteString(w, ",")
	} else {
		writeHead(w)
	}
	_ = json.NewEncoder(w).Encode(key)
}

func (a *API) readRequest(r *http.Request) (Request, error) {
	request, expiresIn := Request{Origin: origin(r)}, ""
	err := decodeObject(r.Body, map[string]*string{
		"name": &request.Name, "owner": &request.Owner, "plan": &request.Plan, "expires_in": &expiresIn,
	})
	if err != nil {
		return Request{}, err
	}
	if request.Owner == "" {
		request.Owner = request.Name
	}
	if !a.PlanExists(request.Plan) {
		return Request{}, &Invalid{Param: "plan", Reason: "is not a plan of the configuration"}
	}
	if expiresIn != "" {
		if request.Lifetime, err = ParseLifetime(expiresIn); err != nil {
			return Request{}, &Invalid{Param: "expires_in", Reason: err.Error()}
		}
	}
	return request, nil
}

func readOverlap(body io.Reader) (time.Duration, error) {
	var text string
	if err := decodeObject(body, map[string]*string{"overlap": &text}); err != nil {
		return 0, err
	}
	if text == "" {
		return defaultOverlap, nil
	}
	overlap, err := ParseLifetime(text)
	if err != nil {
		return 0, &Invalid{Param: "overlap", Reason: err.Error()}
	}
	return overlap, nil
}

func readOwner(r *http.Request) (string, error) {
	query := r.URL.Query()
	for name := range query {
		if name != "owner" {
			return "", &Invalid{Param: harmless(name), Reason: "is not a parameter of this request"}
		}
	}
	owner := query.Get("owner")
	if owner == "" {
		return "", nil
	}
	return owner, CheckOwner(owner)
}

// origin is what the client says of itself, for the record only.
func origin(r *http.Request) Origin {
	if r.UserAgent() == clientAgent {
		return FromCLI
	}
	return FromAPI
}

func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	answer, ours := answerTo(err)
	if ours {
		a.Log.Error().Err(err).Str("method", r.Method).Str("remote", r.RemoteAddr).Msg("key API")
	}
	answer.write(w)
}

func (a *API) record(r *http.Request, what string, key Key) {
	a.Log.Info().Str("key", key.ID).Str("owner", key.Owner).Str("plan", key.Plan).
		Str("remote", r.RemoteAddr).Msg(what)
	a.tell(r, what, key)
}

func (a *API) tell(r *http.Request, what string, key Key) {
	if a.Changed != nil {
		a.Changed(r.Context(), what, key, r.RemoteAddr)
	}
}

func notAllowed(allow string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", allow)
		errMethod.write(w)
	}
}
