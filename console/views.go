package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

//go:embed pages/*.html
var pageFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// views are the pages' templates and the files that they refer to.
type views struct {
	pages  map[string]*template.Template
	assets map[string][]byte
	hashes map[string]string
}

// frame is what every page is filled with.
type frame struct {
	Title, Section, Service string
	Person                  *Person // nil: nobody is signed in
	Admin, Devices          bool
	Token                   string // for any form but an approval
	Notice                  string
	Page                    any
}

func (v *visit) frame(title, section string, page any) frame {
	f := frame{
		Title: title, Section: section, Service: v.Service, Admin: v.admin, Devices: v.Devices.LookUp != nil,
		Token: v.token(""), Notice: notices[v.r.URL.Query().Get("done")], Page: page,
	}
	if v.person.Owner != "" {
		f.Person = &v.person
	}
	return f
}

// notices are what a page says after a form was sent.
var notices = map[string]string{
	"renamed":  "The key has a new name.",
	"revoked":  "The key is revoked. It is refused from its next request on.",
	"plan":     "The key is under its new plan from its next request on.",
	"once":     "That form was sent before. Its key was shown then, and is listed here.",
	"password": "Your password is changed. Your other sessions are over.",
	"sessions": "All your other sessions are over.",
	"disable":  "The account is disabled. Keys that it has go on working until they are revoked.",
	"enable":   "The account is enabled.",
}

func newViews(c *Console) (*views, error) {
	v := &views{pages: map[string]*template.Template{}, assets: map[string][]byte{}, hashes: map[string]string{}}
	if err := v.readAssets(); err != nil {
		return nil, err
	}
	layout, err := template.New("").Funcs(v.funcs(c)).ParseFS(pageFiles, "pages/layout.html", "pages/parts.html")
	if err != nil {
		return nil, fmt.Errorf("console pages: %w", err)
	}
	files, err := pageFiles.ReadDir("pages")
	if err != nil {
		return nil, fmt.Errorf("console pages: %w", err)
	}
	for _, file := range files {
		name, page := strings.TrimSuffix(file.Name(), ".html"), template.Must(layout.Clone())
		if name == "layout" || name == "parts" {
			continue
		}
		if v.pages[name], err = page.ParseFS(pageFiles, "pages/"+file.Name()); err != nil {
			return nil, fmt.Errorf("console pages: %w", err)
		}
	}
	return v, nil
}

func (v *views) readAssets() error {
	files, err := assetFiles.ReadDir("assets")
	if err != nil {
		return fmt.Errorf("console assets: %w", err)
	}
	for _, file := range files {
		content, err := assetFiles.ReadFile("assets/" + file.Name())
		if err != nil {
			return fmt.Errorf("console assets: %w", err)
		}
		digest := sha256.Sum256(content)
		v.assets[file.Name()], v.hashes[file.Name()] = content, hex.EncodeToString(digest[:6])
	}
	return nil
}

// render writes a page whole, or nothing: half a page could hide what it says.
func (v *views) render(w http.ResponseWriter, status int, name string, f frame) error {
	var page bytes.Buffer
	if err := v.pages[name].ExecuteTemplate(&page, "layout", f); err != nil {
		return fmt.Errorf("page %s: %w", name, err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = page.WriteTo(w) // the client left, if anything
	return nil
}

// asset serves a file that never changes under its name and hash.
func (v *views) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	content, ok := v.assets[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	if r.URL.Query().Get("v") == v.hashes[name] {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_, _ = w.Write(content)
}

func (v *views) funcs(c *Console) template.FuncMap {
	return template.FuncMap{
		"path":   c.path,
		"asset":  func(name string) string { return c.path("/assets/"+name) + "?v=" + v.hashes[name] },
		"ago":    func(t time.Time) string { return ago(time.Now(), t) },
		"until":  func(t time.Time) string { return inWords(time.Until(t)) },
		"day":    func(t time.Time) string { return t.UTC().Format("2 Jan 2006") },
		"stamp":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
		"iso":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"words":  inWords,
		"num":    short,
		"commas": Commas,
		"count":  plural,
		"cut":    func(id string) string { return id[:min(len(id), 8)] },
		"join":   func(list []string) string { return strings.Join(list, ", ") },
		"px":     func(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) },
		"owner":  c.ownerPath,
		"mask":   func(k Key) string { return "sk-" + c.Service + "-\u2026" + k.Last4 },
	}
}

func (c *Console) ownerPath(owner, act string) string {
	return c.path("/admin/people/" + owner + "/" + act)
}

func ago(now, t time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return "never"
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + " min ago"
	case d < 24*time.Hour:
		return plural(int(d/time.Hour), "hour") + " ago"
	}
	return plural(int(d/(24*time.Hour)), "day") + " ago"
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// short writes a number in at most five characters: 999, 1.2k, 35M.
func short(n int64) string {
	value, unit := float64(n), ""
	for _, next := range []string{"k", "M", "G", "T"} {
		if value < 999.5 {
			break
		}
		value, unit = value/1000, next
	}
	if unit == "" || value >= 99.95 {
		return strconv.FormatFloat(value, 'f', 0, 64) + unit
	}
	return strings.TrimSuffix(strconv.FormatFloat(value, 'f', 1, 64), ".0") + unit
}

// Commas writes a number in groups of three digits.
func Commas(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
