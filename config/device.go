package config

import (
	"slices"
	"time"
)

// Device says how programs get keys by device login. It works where the
// console does: people approve there.
type Device struct {
	// Enabled switches device login on. Default: true.
	Enabled bool `yaml:"enabled"`
	// CodeLife is how long a code can be approved and redeemed. 1m to 1h.
	// Duration. Default: 10m.
	CodeLife time.Duration `yaml:"code_life"`
	// Interval is how long a program must wait between two polls. 1s to 1m.
	// Duration. Default: 5s.
	Interval time.Duration `yaml:"interval"`
	// KeyLife is how long the keys that are made this way work. 1h to 3650d.
	// Duration. Default: 90d.
	KeyLife time.Duration `yaml:"key_life"`
	// Plans are the only plans that keys made this way may have. Default: [],
	// every plan that the person may have.
	Plans []string `yaml:"plans"`
	// Pending is how many codes may wait for a decision at one time: the more,
	// the likelier a guess hits one. Count. Default: 1000.
	Pending int `yaml:"pending"`
	// StartsPerAddress is how many codes one address may start during the life
	// of a code. Count. Default: 20.
	StartsPerAddress int `yaml:"starts_per_address"`
	// Polls is how many polls a gateway takes in a second. Count. Default: 500.
	Polls int `yaml:"polls"`
	// PollsPerAddress is how many of them may come from one address. Count.
	// Default: 20.
	PollsPerAddress int `yaml:"polls_per_address"`
}

// DeviceLogin reports whether programs can get keys by device login.
func (c *Config) DeviceLogin() bool { return c.Listen.Console != "" && c.Device.Enabled }

func defaultDevice() Device {
	return Device{
		Enabled: true, CodeLife: 10 * time.Minute, Interval: 5 * time.Second, KeyLife: 90 * day,
		Pending: 1000, StartsPerAddress: 20, Polls: 500, PollsPerAddress: 20,
	}
}

const longestKeyLife = 3650 * day

func (d *document) checkDevice(c *Config) {
	v := c.Device
	d.span("device.code_life", v.CodeLife, time.Minute, time.Hour)
	d.span("device.interval", v.Interval, time.Second, time.Minute)
	d.span("device.key_life", v.KeyLife, time.Hour, longestKeyLife)
	d.upTo("device.pending", int64(v.Pending), 100_000)
	d.upTo("device.starts_per_address", int64(v.StartsPerAddress), 100_000)
	d.upTo("device.polls", int64(v.Polls), maxSockets)
	d.upTo("device.polls_per_address", int64(v.PollsPerAddress), maxSockets)
	d.planNames("device.plans", v.Plans, c.PlanNames())
}

// planNames checks a list of plans, each of which must exist, and only once.
func (d *document) planNames(path string, plans, known []string) {
	for i, plan := range plans {
		d.known(index(path, i), plan, known, "plan")
		if slices.Contains(plans[:i], plan) {
			d.fail(index(path, i), "%s is given twice: remove one", d.quoted(index(path, i)))
		}
	}
}

func (d *document) span(path string, value, least, most time.Duration) {
	if value < least || value > most {
		d.fail(path, "%s is out of range: write a duration from %s to %s", d.quoted(path), FormatDuration(least), FormatDuration(most))
	}
}
