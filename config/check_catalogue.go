package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	modelID  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$`)
	poolName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\.?$`)
	address6 = regexp.MustCompile(`^[0-9A-Fa-f:.]+$`)

	endpoints = []string{
		"chat/completions", "completions", "embeddings", "responses", "messages", "score",
		"rerank", "tokenize", "detokenize", "pooling", "classify",
	}
	// taken are the members that the gateway itself reads, or whose
	// replacement would change what the caller asked.
	taken = []string{"model", "stream", "messages", "prompt", "input", "stream_options"}
)

const maxContext = 1 << 30 // tokens

func (d *document) checkModels(c *Config) {
	if len(c.Models) == 0 {
		d.fail("models", "names no model: add one, like {id: mete, pool: general, created: 2026-01-15, context_window: 32768}")
	}
	ids := map[string]int{}
	for i := range c.Models {
		path := index("models", i)
		d.checkModel(path, &c.Models[i], c.PoolNames())
		unique(d, ids, c.Models[i].ID, i, path+".id", "models")
	}
}

func (d *document) checkModel(path string, m *Model, pools []string) {
	d.named(path+".id", m.ID, modelID, "up to 128 letters, digits and . _ : / @ + -, a letter or digit first")
	d.known(path+".pool", m.Pool, pools, "pool")
	if m.Created.IsZero() {
		d.fail(path+".created", "is required: write a day as YYYY-MM-DD, like 2026-01-15")
	}
	d.upTo(path+".context_window", int64(m.ContextWindow), maxContext)
	if d.has(path + ".first_byte_timeout") {
		d.duration(path+".first_byte_timeout", m.FirstByteTimeout, 0)
	}
	for _, member := range m.Request {
		if slices.Contains(taken, member.Name) {
			d.fail(join(path+".request", member.Name), "belongs to the caller or to the gateway and cannot be replaced: remove it")
		}
	}
}

func (d *document) checkPools(c *Config) {
	if len(c.Pools) == 0 {
		d.fail("pools", "names no pool: add one, like general: {replicas: [\"http://10.0.0.5:8000\"]}")
	}
	for _, name := range c.PoolNames() {
		path, pool := join("pools", name), c.Pools[name]
		d.label(path, name, "pool")
		d.checkSources(path, pool)
		d.checkBalancing(path, name, c)
		d.checkEndpoints(path+".endpoints", pool.Endpoints)
	}
}

func (d *document) checkReplicas(path string, replicas []string) {
	seen := map[string]int{}
	for i, replica := range replicas {
		at := index(path, i)
		if err := checkReplica(replica); err != nil {
			d.fail(at, "%s %v", d.quoted(at), err)
		}
		unique(d, seen, strings.ToLower(replica), i, at, path)
	}
}

// checkReplica wants scheme, host and port, and nothing else: the rest of the
// URL is the gateway's to build.
func checkReplica(replica string) error {
	return checkBase(replica, "http://10.0.0.5:8000", "the replicas' key as api_key_file")
}

// checkBase wants a URL of scheme, host and port. Like is an example, and secret
// says where to write what some would put before the host.
func checkBase(text, like, secret string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Opaque != "":
		return fmt.Errorf("is not a URL: write scheme, host and port, like %s", like)
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("does not start with http:// or https://: write it in front, like %s", like)
	case u.User != nil:
		return fmt.Errorf("holds a user or password: remove it, and give %s", secret)
	case u.Path != "" || u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return errors.New("has more than scheme, host and port: remove what stands behind the port")
	case !validHost(u):
		return fmt.Errorf("has no valid host: write a name or an address, like %s", like)
	case u.Port() == "":
		return fmt.Errorf("has no port: write it behind the host, like %s", like)
	}
	if port, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || port == 0 {
		return errors.New("has no valid port: write a number from 1 to 65535")
	}
	return nil
}

func validHost(u *url.URL) bool {
	if strings.HasPrefix(u.Host, "[") {
		return address6.MatchString(u.Hostname())
	}
	return hostName.MatchString(u.Hostname())
}

func (d *document) checkEndpoints(path string, names []string) {
	if len(names) == 0 {
		d.fail(path, "lets no endpoint through: name some, or remove the line for the default")
	}
	seen := map[string]int{}
	for i, name := range names {
		at := index(path, i)
		bare := strings.TrimPrefix(strings.TrimPrefix(name, "/"), "v1/")
		if bare != name && slices.Contains(endpoints, bare) {
			d.fail(at, "%s is written without /v1/ here: write %s", d.quoted(at), bare)
		}
		d.oneOf(at, name, endpoints)
		unique(d, seen, name, i, at, path)
	}
}

// named checks a required name against its pattern; rule says it in words.
func (d *document) named(path, name string, pattern *regexp.Regexp, rule string) {
	switch {
	case !d.has(path):
		d.fail(path, "is required: write %s", rule)
	case !pattern.MatchString(name):
		d.fail(path, "%s is not a name: write %s", d.quoted(path), rule)
	}
}

// label checks the name of a pool or a plan, which becomes a metric's label.
func (d *document) label(path, name, kind string) {
	if !poolName.MatchString(name) {
		d.fail(path, "is not a name for a %s: write up to 64 letters, digits and . _ -, a letter or digit first", kind)
	}
}

// known checks a required reference to one of the names, which are those of a
// section called as the kind, with an s.
func (d *document) known(path, name string, names []string, kind string) {
	switch {
	case !d.has(path):
		d.fail(path, "is required: write the name of a %s", kind)
	case d.broken(kind + "s"):
	case len(names) == 0:
		d.fail(path, "there is no %s %s: add it under %ss", kind, d.quoted(path), kind)
	case !slices.Contains(names, name):
		d.fail(path, "there is no %s %s: %s", kind, d.quoted(path), hint(name, names))
	}
}

// unique notes a value that an earlier element of the list at path has, too.
func unique[K comparable](d *document, seen map[K]int, value K, i int, at, path string) {
	if d.broken(at) || !d.has(at) {
		return
	}
	if before, twice := seen[value]; twice {
		d.fail(at, "is the same as in %s: every one must be different", index(path, before))
		return
	}
	seen[value] = i
}
