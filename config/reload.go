package config

import (
	"fmt"
	"reflect"
	"slices"
)

// reloadable are the fields that a running gateway can change. Of timeouts all
// but header and keep_alive can be changed, of log all but format and file.
var reloadable = []string{"trusted_proxies", "models", "pools", "plans", "keys", "answer", "shutdown", "timeouts", "log"}

// Inherit makes c keep what a gateway that runs on old cannot change without a
// restart, and returns the names of the fields of which c said something else.
// The error says what c must not drop because a kept field needs it.
func (c *Config) Inherit(old *Config) (kept []string, err error) {
	keep := func(name string, mine, running any) {
		to, from := reflect.ValueOf(mine).Elem(), reflect.ValueOf(running).Elem()
		if !reflect.DeepEqual(to.Interface(), from.Interface()) {
			kept = append(kept, name)
			to.Set(from)
		}
	}
	mine, running := reflect.ValueOf(c).Elem(), reflect.ValueOf(old).Elem()
	for _, name := range fieldNames(mine.Type(), "") {
		if field, ok := fieldByTag(mine, name); ok && !slices.Contains(reloadable, name) {
			before, _ := fieldByTag(running, name)
			keep(name, field.Addr().Interface(), before.Addr().Interface())
		}
	}
	keep("timeouts.header", &c.Timeouts.Header, &old.Timeouts.Header)
	keep("timeouts.keep_alive", &c.Timeouts.KeepAlive, &old.Timeouts.KeepAlive)
	keep("log.format", &c.Log.Format, &old.Log.Format)
	keep("log.file", &c.Log.File, &old.Log.File)
	return kept, c.checkInherited()
}

// checkInherited checks what kept fields name.
func (c *Config) checkInherited() error {
	named := map[string][]string{"console.plans": c.Console.Plans, "device.plans": c.Device.Plans}
	for _, g := range c.Console.Groups {
		named["console.groups"] = append(named["console.groups"], g.Plans...)
	}
	for _, field := range sortedKeys(named) {
		for _, plan := range named[field] {
			if _, ok := c.Plan(plan); !ok {
				return fmt.Errorf("plan %q is still named by %s, which only a restart changes: keep the plan, or restart", plan, field)
			}
		}
	}
	return nil
}
