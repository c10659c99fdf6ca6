package config

import (
	"regexp"
	"slices"
	"time"
)

const (
	shortestWindow  = time.Second
	longestWindow   = 31 * day
	highestPriority = 9
	largestWeight   = 1000
	maxLimits       = 16 // one script decides all of them
)

var (
	keyName       = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$`)
	guardedFields = []string{"priority", "kv_transfer_params"}
)

func (d *document) checkPlans(c *Config) {
	var ids []string
	for i := range c.Models {
		ids = append(ids, c.Models[i].ID)
	}
	for _, name := range c.PlanNames() {
		path, plan := join("plans", name), c.Plans[name]
		d.label(path, name, "plan")
		d.checkLimits(path+".limits", plan.Limits)
		d.checkPlanModels(path+".models", plan, ids)
		for i, field := range plan.AllowFields {
			d.oneOf(index(path+".allow_fields", i), field, guardedFields)
		}
		d.upTo(path+".default_tokens", int64(plan.DefaultTokens), maxContext)
		d.checkQueue(path+".queue", plan)
	}
}

func (d *document) checkQueue(path string, plan Plan) {
	d.oneOf(path+".policy", plan.QueuePolicy, []string{QueueWaits, QueueNeverRefuses, QueueRefuses})
	d.duration(path+".max_wait", plan.QueueWait, time.Millisecond)
	d.upTo(path+".priority", int64(plan.Priority), highestPriority)
	d.upTo(path+".weight", int64(plan.Weight), largestWeight)
}

func (d *document) checkPlanModels(path string, plan Plan, ids []string) {
	for i, id := range plan.AllowModels {
		d.known(index(path+".allow", i), id, ids, "model")
	}
	for i, id := range plan.DenyModels {
		at := index(path+".deny", i)
		d.known(at, id, ids, "model")
		if slices.Contains(plan.AllowModels, id) {
			d.fail(at, "is allowed and denied: remove it from allow or from deny")
		}
	}
	if d.has(path+".allow") && len(plan.AllowModels) == 0 {
		d.fail(path+".allow", "names no model: name some, or remove the line to allow every model")
	}
}

func (d *document) checkLimits(path string, limits []Limit) {
	if len(limits) > maxLimits {
		d.fail(path, "holds %d limits: keep at most %d", len(limits), maxLimits)
	}
	type window struct {
		kind string
		per  time.Duration
	}
	seen := map[window]int{}
	for i, limit := range limits {
		at := index(path, i)
		kind := d.checkLimit(at, limit)
		if kind == "" || d.broken(at+".per") {
			continue
		}
		if before, twice := seen[window{kind, limit.Per}]; twice {
			d.fail(at, "limits %s over the same time as %s: keep the lower of the two", kind, index(path, before))
			continue
		}
		seen[window{kind, limit.Per}] = i
	}
}

// checkLimit returns what is limited, or nothing when that is not clear.
func (d *document) checkLimit(path string, limit Limit) string {
	const rule = "write one of requests, tokens or concurrent"
	amounts := map[string]int64{"requests": limit.Requests, "tokens": limit.Tokens, "concurrent": limit.Concurrent}
	var kinds []string
	for _, kind := range sortedKeys(amounts) {
		if d.has(join(path, kind)) {
			kinds = append(kinds, kind)
			d.upTo(join(path, kind), amounts[kind], maxCount)
		}
	}
	switch len(kinds) {
	case 0:
		d.fail(path, "limits nothing: %s", rule)
		return ""
	case 1:
		d.checkWindow(path+".per", kinds[0], limit.Per)
		return kinds[0]
	}
	d.fail(path, "limits both %s and %s: %s, and make the other a limit of its own", kinds[0], kinds[1], rule)
	return ""
}

func (d *document) checkWindow(path, kind string, per time.Duration) {
	given := d.has(path)
	switch {
	case kind == "concurrent" && given:
		d.fail(path, "has no meaning for concurrent: remove it")
	case kind != "concurrent" && !given:
		d.fail(path, "is required for %s: write a duration from 1s to 31d, like 1m", kind)
	case given && (per < shortestWindow || per > longestWindow):
		d.fail(path, "%s is out of range: write a duration from 1s to 31d", d.quoted(path))
	}
}

func (d *document) checkKeys(c *Config) {
	names, digests := map[string]int{}, map[[32]byte]int{}
	for i, key := range c.Keys {
		const rule = "up to 128 letters, digits and . _ : / @ + -, a letter or digit first"
		path := index("keys", i)
		d.named(path+".name", key.Name, keyName, rule)
		if d.has(path + ".owner") {
			d.named(path+".owner", key.Owner, keyName, rule)
		}
		d.known(path+".plan", key.Plan, c.PlanNames(), "plan")
		if !d.has(path + ".sha256") {
			d.fail(path+".sha256", `is required: write the output of printf %%s "$KEY" | sha256sum, without the dash`)
		}
		unique(d, names, key.Name, i, path+".name", "keys")
		unique(d, digests, key.SHA256, i, path+".sha256", "keys")
	}
}
