package config

import "testing"

func TestAnAdapterTakesAfterTheModelThatItAdapts(t *testing.T) {
	c := Default()
	c.Models = []Model{{ID: "a", Pool: "p"}, {ID: "b", Pool: "p", UpstreamModel: "Org/B"}, {ID: "c", Pool: "off"}}
	c.Pools = map[string]Pool{"p": {Adapters: true}, "off": {}, "empty": {Adapters: true}}
	for _, test := range []struct{ pool, parent, want string }{
		{"p", "Org/B", "b"}, {"p", "a", "a"}, {"p", "b", "a"}, {"p", "", "a"}, {"off", "c", ""}, {"empty", "a", ""}, {"none", "a", ""},
	} {
		got := ""
		if m := c.BaseOf(test.pool, test.parent); m != nil {
			got = m.ID
		}
		if got != test.want {
			t.Errorf("pool %s, parent %s: %q, want %q", test.pool, test.parent, got, test.want)
		}
	}
	if m := c.ModelsOf("p"); len(m) != 2 || m[0] != &c.Models[0] || m[1].Upstream() != "Org/B" {
		t.Errorf("%v", m)
	}
}
