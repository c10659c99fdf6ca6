package main

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"mete/config"
)

// deployTools runs the tests that want helm, kubeconform and the like, which
// make test-deploy puts into .cache/bin.
var deployTools = flag.Bool("deploy", false, "hold deploy/ against the tools that read it")

// shippedSecrets are the variables that the shipped configurations name.
func shippedSecrets(t *testing.T) {
	for _, name := range []string{
		"METE_PEPPER", "METE_ADMIN_TOKEN", "METE_REDIS_USER", "METE_REDIS_PASSWORD",
		"METE_CONSUL_TOKEN", "METE_VLLM_KEY", "METE_OIDC_SECRET",
	} {
		t.Setenv(name, "0123456789abcdef0123456789abcdef")
	}
	t.Setenv("METE_REDIS_URL", "redis://redis:6379/0")
}

func TestShippedConfigurationsLoad(t *testing.T) {
	shippedSecrets(t)
	files, _ := filepath.Glob("deploy/*.yaml")
	files = append(files, "deploy/compose/mete.yaml")
	if len(files) < 5 {
		t.Fatalf("found only %v", files)
	}
	for _, file := range files {
		if file == filepath.Join("deploy", "compose.yaml") {
			continue
		}
		command := checkCommand()
		command.SetArgs([]string{"--config", file})
		out := &bytes.Buffer{}
		command.SetOut(out)
		command.SetErr(out)
		if err := command.Execute(); err != nil {
			t.Errorf("mete check --config %s: %v\n%s", file, err, out)
		}
	}
}

// TestConfigurationsInsideOtherFilesLoad takes them out of the Helm chart's
// values and of the Nomad job's template.
func TestConfigurationsInsideOtherFilesLoad(t *testing.T) {
	shippedSecrets(t)
	var values struct{ Config map[string]any }
	if err := yaml.Unmarshal(contents(t, "deploy/helm/mete/values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	chart, err := yaml.Marshal(values.Config)
	if err != nil {
		t.Fatal(err)
	}
	_, job, _ := strings.Cut(string(contents(t, "deploy/nomad/mete.nomad.hcl")), "<<EOT\n")
	job, _, _ = strings.Cut(job, "EOT\n")
	job = regexp.MustCompile(`\{\{ \.\w+ \}\}`).ReplaceAllString(job, "0123456789abcdef0123456789abcdef")
	job = regexp.MustCompile(`\{\{.*\}\}`).ReplaceAllString(job, "")
	for name, text := range map[string]string{"values.yaml": string(chart), "mete.nomad.hcl": job} {
		if _, err := config.Parse(name, []byte(text)); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

// deployTool returns the path of a program, or skips the test.
func deployTool(t *testing.T, name string) string {
	t.Helper()
	if !*deployTools {
		t.Skip("with -deploy only: make test-deploy")
	}
	for _, path := range []string{".cache/bin/" + name, ".cache/deploy/bin/" + name} {
		if _, err := os.Stat(path); err == nil {
			path, _ = filepath.Abs(path)
			return path
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s: %v", name, err)
	}
	return path
}

// succeeds runs a program and returns what it printed.
func succeeds(t *testing.T, stdin []byte, program string, args ...string) string {
	t.Helper()
	command := exec.Command(program, args...)
	command.Stdin = bytes.NewReader(stdin)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestHelmRendersTheChart(t *testing.T) {
	helm := deployTool(t, "helm")
	succeeds(t, nil, helm, "lint", "--strict", "deploy/helm/mete")
	rendered := succeeds(t, nil, helm, "template", "gate", "deploy/helm/mete", "--kube-version", "1.31.0", "--set", "serviceMonitor=true")
	for _, kind := range []string{"ConfigMap", "Deployment", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler", "ServiceMonitor"} {
		if !strings.Contains(rendered, "\nkind: "+kind+"\n") {
			t.Errorf("the chart renders no %s", kind)
		}
	}
	if !strings.Contains(rendered, "name: mete_pool_queue_length") {
		t.Error("the gateway is not scaled on what waits in it")
	}
	for document := range strings.SplitSeq(rendered, "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Errorf("%v\n%s", err, document)
		}
	}
	fixed := succeeds(t, nil, helm, "template", "gate", "deploy/helm/mete", "--kube-version", "1.31.0", "--set", "autoscaling.enabled=false")
	if !strings.Contains(fixed, "replicas: 2") || strings.Contains(fixed, "HorizontalPodAutoscaler") {
		t.Error("without autoscaling the chart has no fixed number of replicas")
	}
}

func TestComposeFileIsWhole(t *testing.T) {
	compose := deployTool(t, "compose")
	out := succeeds(t, nil, "sh", "-c", "cd deploy && "+compose+" -no-interpolation compose.yaml")
	for _, service := range []string{"mete", "sim-1", "sim-2", "redis", "consul", "prometheus", "grafana"} {
		if !strings.Contains(out, "\n    "+service+":\n") {
			t.Errorf("no service %s", service)
		}
	}
	for _, found := range regexp.MustCompile(`source: (/\S+)`).FindAllStringSubmatch(out, -1) {
		if _, err := os.Stat(found[1]); err != nil {
			t.Errorf("a volume that is not there: %v", err)
		}
	}
}

func TestNomadAndConsulFilesAreFormattedHCL(t *testing.T) {
	hclfmt := deployTool(t, "hclfmt")
	files, _ := filepath.Glob("deploy/*/*.hcl")
	for _, file := range files {
		succeeds(t, nil, hclfmt, "-check", "-require-no-change", file)
	}
}

func TestDockerfileIsClean(t *testing.T) {
	succeeds(t, nil, deployTool(t, "hadolint"), "deploy/Dockerfile")
}

func TestSystemdUnitsAreSound(t *testing.T) {
	analyze := deployTool(t, "systemd-analyze")
	dir := t.TempDir()
	units, _ := filepath.Glob("deploy/systemd/mete.*")
	args := []string{"verify"}
	for _, unit := range units {
		text := strings.ReplaceAll(string(contents(t, unit)), "/usr/local/bin/mete", "/bin/true")
		path := filepath.Join(dir, filepath.Base(unit))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	if out := succeeds(t, nil, analyze, args...); strings.TrimSpace(out) != "" {
		t.Errorf("systemd-analyze verify says\n%s", out)
	}
}

// TestTwoBuildsAreTheSame builds in two folders.
func TestTwoBuildsAreTheSame(t *testing.T) {
	deployTool(t, "go")
	other := t.TempDir()
	succeeds(t, nil, "sh", "-c", "git ls-files -z -co --exclude-standard | xargs -0 cp --parents -t "+other)
	var binaries [][]byte
	for _, dir := range []string{".", other} {
		succeeds(t, nil, "make", "-s", "-C", dir, "build", "VERSION=v0", "OUT="+filepath.Join(other, "mete"))
		binaries = append(binaries, contents(t, filepath.Join(other, "mete")))
	}
	if !bytes.Equal(binaries[0], binaries[1]) {
		t.Errorf("two builds of the same source differ: %d and %d bytes", len(binaries[0]), len(binaries[1]))
	}
}

func contents(t *testing.T, path string) []byte { return []byte(read(t, path)) }
