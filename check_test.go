package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	t.Setenv("CONFIG_TEST_PEPPER", strings.Repeat("p", 32))
	t.Setenv("CONFIG_TEST_HOST", "vllm")
	tests := []struct{ name, args, out, stderr, err string }{
		{
			"a good file is counted", "--config config/testdata/good/full.yaml",
			"config/testdata/good/full.yaml: ok: 2 models, 2 pools, 4 replicas, 1 DNS name, 3 Consul services, 2 plans, 2 static keys\n", "", "",
		},
		{
			"one of a thing is not many", "--config config/testdata/good/minimal.yaml",
			"config/testdata/good/minimal.yaml: ok: 1 model, 1 pool, 1 replica, 0 plans, 0 static keys\n", "", "",
		},
		{
			"every fault is printed", "-c config/testdata/bad/anchor.yaml", "",
			"config/testdata/bad/anchor.yaml:6:9: plans.free: is an anchor or alias, which are not known here: write the value out\n" +
				"config/testdata/bad/anchor.yaml:7:9: plans.paid: is an anchor or alias, which are not known here: write the value out\n",
			"config/testdata/bad/anchor.yaml: 2 faults",
		},
		{"a file that is not there", "--config none.yaml", "", "", "config none.yaml: no such file or directory"},
		{"no file at all", "", "", "", `required flag(s) "config" not set`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out, stderr bytes.Buffer
			command := checkCommand()
			command.SilenceErrors, command.SilenceUsage = true, true
			command.SetOut(&out)
			command.SetErr(&stderr)
			command.SetArgs(strings.Fields(test.args))
			message := ""
			if err := command.Execute(); err != nil {
				message = err.Error()
			}
			if out.String() != test.out || stderr.String() != test.stderr || message != test.err {
				t.Errorf("got out %q, stderr %q, error %q", out.String(), stderr.String(), message)
			}
		})
	}
}
