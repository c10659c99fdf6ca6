package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"
)

// session is one browser of one person.
type session struct {
	Owner   string    `json:"owner"`
	Way     string    `json:"way"`
	Epoch   int       `json:"epoch"`
	Created time.Time `json:"created"`
	Seen    time.Time `json:"seen"` // to seenEvery

	id string // the secret in the cookie
}

// seenEvery is how often the time of a session's last request is written.
const seenEvery = time.Minute

type sessions struct {
	records
	prefix     string
	idle, life time.Duration
	cookies    cookies
}

// name shows nothing of the id, which has 128 random bits and needs no pepper.
func (s *sessions) name(id string) string {
	digest := sha256.Sum256([]byte(id))
	return s.prefix + "session:" + hex.EncodeToString(digest[:])
}

// open makes a session with a new id, whatever the browser had before.
func (s *sessions) open(w http.ResponseWriter, r *http.Request, person Person) (session, error) {
	now := time.Now().UTC()
	made := session{Owner: person.Owner, Way: person.Way, Epoch: person.Epoch, Created: now, Seen: now, id: rand.Text()}
	if err := s.put(r.Context(), s.name(made.id), made, s.idle); err != nil {
		return session{}, err
	}
	if old := s.cookies.get(r, sessionCookie); old != "" {
		_ = s.remove(r.Context(), s.name(old)) // it would expire by itself
	}
	s.cookies.set(w, sessionCookie, made.id, s.life)
	return made, nil
}

// find returns the browser's session, and false if it has none that lasts.
func (s *sessions) find(r *http.Request) (session, bool, error) {
	id := s.cookies.get(r, sessionCookie)
	if id == "" {
		return session{}, false, nil
	}
	found := session{}
	raw, err := s.get(r.Context(), s.name(id), &found)
	if err != nil || raw == "" {
		return session{}, false, err
	}
	found.id = id
	now := time.Now()
	if now.Sub(found.Created) > s.life || now.Sub(found.Seen) > s.idle {
		return session{}, false, nil
	}
	if now.Sub(found.Seen) > seenEvery {
		found.Seen = now.UTC()
		_ = s.put(r.Context(), s.name(id), found, s.idle) // the next request tries again
	}
	return found, true, nil
}

func (s *sessions) close(ctx context.Context, w http.ResponseWriter, id string) error {
	s.cookies.drop(w, sessionCookie)
	return s.remove(ctx, s.name(id))
}
