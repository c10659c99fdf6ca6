package config

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestInheritKeepsWhatOnlyARestartChanges(t *testing.T) {
	old, next := Default(), Default()
	next.Listen.API = ":1"
	next.Redis.Timeout = time.Minute
	next.Timeouts.Header, next.Timeouts.Idle = time.Minute, time.Minute
	next.Log.File, next.Log.Level = "x", "debug"
	next.TrustedProxies = []string{"10.0.0.5"}
	kept, err := next.Inherit(old)
	slices.Sort(kept)
	if want := []string{"listen", "log.file", "redis", "timeouts.header"}; err != nil || !slices.Equal(kept, want) {
		t.Errorf("kept %v, want %v (%v)", kept, want, err)
	}
	if next.Listen != old.Listen || next.Timeouts.Header != old.Timeouts.Header || next.Log.File != "" {
		t.Error("what was named was not kept")
	}
	if next.Timeouts.Idle != time.Minute || next.Log.Level != "debug" || len(next.TrustedProxies) != 1 {
		t.Error("what can be changed was not")
	}
}

func TestAPlanThatTheConsoleOffersCannotGo(t *testing.T) {
	old, next := Default(), Default()
	old.Plans["free"] = DefaultPlan()
	old.Console.Plans = []string{"free"}
	if _, err := next.Inherit(old); err == nil || !strings.Contains(err.Error(), `plan "free" is still named by console.plans`) {
		t.Error(err)
	}
}
