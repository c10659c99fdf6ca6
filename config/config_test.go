package config

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testPepper = "0123456789abcdef0123456789abcdef"

// Each bad file has one defect, and beside it the exact faults expected.
func TestEveryBadFileIsRefusedWithItsExactFaults(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 100 {
		t.Fatalf("found %d bad files: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			want, err := os.ReadFile(strings.TrimSuffix(file, ".yaml") + ".want")
			if err != nil {
				t.Fatal(err)
			}
			c, err := Load(file)
			if c != nil || err == nil {
				t.Fatal("the file was accepted")
			}
			if got := strings.ReplaceAll(err.Error(), "testdata/bad/", "") + "\n"; got != string(want) {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

func TestFilesWithSecretsInTheWrongPlaceDoNotShowThem(t *testing.T) {
	files, _ := filepath.Glob("testdata/bad/*.want")
	for _, file := range files {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"hunter2", "sk-mete-", "pa/ss"} {
			if strings.Contains(string(want), secret) {
				t.Errorf("%s shows %s", file, secret)
			}
		}
	}
}

func TestMinimalFileHoldsTheDefaults(t *testing.T) {
	c, err := Load("testdata/good/minimal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Models = []Model{{
		ID: "mete", Pool: "general", Root: "mete", ContextWindow: 32768,
		Created: time.Date(2026, 1, 15, 0, 0, 0, 0, time.UTC),
	}}
	pool := DefaultPool()
	pool.Replicas = []string{"http://10.0.0.5:8000"}
	want.Pools["general"] = pool
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
}

func TestFullFileIsReadFieldByField(t *testing.T) {
	c := loadFull(t)
	want := wantFull(t)
	got, expected := reflect.ValueOf(*c), reflect.ValueOf(*want)
	for i := range got.NumField() {
		if !reflect.DeepEqual(got.Field(i).Interface(), expected.Field(i).Interface()) {
			t.Errorf("%s\ngot  %+v\nwant %+v", got.Type().Field(i).Name, got.Field(i), expected.Field(i))
		}
	}
}

// A field that the full file leaves out, or leaves at its default, would not
// be tested above.
func TestFullFileSetsEveryField(t *testing.T) {
	c := loadFull(t)
	for _, section := range []string{"Service", "Listen", "AuthURL", "TrustedProxies", "Device", "Console", "Redis", "Consul", "StateDir", "Bounds", "Timeouts", "Answer", "Shutdown", "Log"} {
		sameAsDefault(t, section, reflect.ValueOf(*c).FieldByName(section), reflect.ValueOf(*Default()).FieldByName(section))
	}
}

func sameAsDefault(t *testing.T, path string, got, standard reflect.Value) {
	if got.Kind() == reflect.Struct {
		for i := range got.NumField() {
			sameAsDefault(t, path+"."+got.Type().Field(i).Name, got.Field(i), standard.Field(i))
		}
		return
	}
	if reflect.DeepEqual(got.Interface(), standard.Interface()) {
		t.Errorf("%s is at its default", path)
	}
}

func TestRequestMembersAreValidJSONInFileOrder(t *testing.T) {
	c := loadFull(t)
	var got []string
	for _, member := range c.Model("org/model:v1").Request {
		if !json.Valid(member.Value) {
			t.Errorf("%s is no JSON: %s", member.Name, member.Value)
		}
		got = append(got, member.Name+" "+string(member.Value))
	}
	want := []string{
		`zeta 1.50`,
		`alpha {"on":true,"off":false,"none":null,"list":[1e3,-0.5,"1e3","it's",{"x":{}},[]]}`,
		`text "<b>` + testPepper + `$</b>"`,
		`block "two\nlines"`,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestLookups(t *testing.T) {
	c := loadFull(t)
	if m := c.Model("other"); m == nil || m != &c.Models[1] {
		t.Errorf("Model(other) = %v", m)
	}
	if m := c.Model("none"); m != nil {
		t.Errorf("Model(none) = %v", m)
	}
	if names := c.PoolNames(); !reflect.DeepEqual(names, []string{"a.b", "c"}) {
		t.Errorf("PoolNames() = %v", names)
	}
	if names := c.PlanNames(); !reflect.DeepEqual(names, []string{"free", "unlimited"}) {
		t.Errorf("PlanNames() = %v", names)
	}
	free, ok := c.Plan("free")
	if !ok || !free.MayUse("org/model:v1") || free.MayUse("other") || free.MayUse("third") {
		t.Errorf("the free plan allows the wrong models: %+v", free)
	}
	if unlimited, ok := c.Plan("unlimited"); !ok || !unlimited.MayUse("other") {
		t.Error("the unlimited plan does not allow every model")
	}
	if _, ok := c.Plan("none"); ok {
		t.Error("Plan(none) is there")
	}
	if !c.Pools["a.b"].Serves("score") || c.Pools["a.b"].Serves("embeddings") {
		t.Error("the pool serves the wrong endpoints")
	}
}

func TestLoadOfAFileThatIsNotThereSaysSo(t *testing.T) {
	_, err := Load("testdata/none.yaml")
	if !errors.Is(err, os.ErrNotExist) || err.Error() != "config testdata/none.yaml: no such file or directory" {
		t.Errorf("got %v", err)
	}
}

func TestExampleLoads(t *testing.T) {
	for _, name := range []string{"METE_REDIS_USER", "METE_REDIS_PASSWORD", "METE_PEPPER", "METE_ADMIN_TOKEN", "METE_VLLM_KEY", "METE_CONSUL_TOKEN", "METE_OIDC_SECRET"} {
		t.Setenv(name, testPepper)
	}
	c, err := Load("../deploy/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Models) != 3 || len(c.Pools) != 2 || len(c.Plans) != 3 || len(c.Keys) != 1 {
		t.Errorf("the example holds %d models, %d pools, %d plans, %d keys", len(c.Models), len(c.Pools), len(c.Plans), len(c.Keys))
	}
	// What the example shows as a default must be one.
	standard := Default()
	if c.Bounds != standard.Bounds || c.Timeouts != standard.Timeouts || c.Answer != standard.Answer ||
		c.Shutdown != standard.Shutdown || c.Log != standard.Log || c.Listen != standard.Listen {
		t.Error("the example shows other values than the defaults")
	}
}

// Every field must be shown by the example, if only in a comment.
func TestExampleNamesEveryField(t *testing.T) {
	example, err := os.ReadFile("../deploy/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for path := range documented(t) {
		_, name, _ := strings.Cut(path, " ")
		for _, part := range strings.Split(name, ".") {
			if !strings.Contains(string(example), part+":") {
				t.Errorf("%s is not in the example", path)
			}
		}
	}
}

func loadFull(t *testing.T) *Config {
	t.Helper()
	t.Setenv("CONFIG_TEST_PEPPER", testPepper)
	t.Setenv("CONFIG_TEST_HOST", "vllm")
	c, err := Load("testdata/good/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return c
}
