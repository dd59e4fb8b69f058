# gms_pure_go: go-mysql-server without its C library.
TAGS  := gms_pure_go
GO    := go
BIN   := bin/godwit
SEEDS ?= 100

.PHONY: build release reproduce packages image test-packages site etcd demo test e2e race lint fmt soak soak-all bench pgo proto console clean

build: ## the one binary
	$(GO) build -tags $(TAGS) -o $(BIN) ./cmd/godwit

VERSION ?= $(shell git describe --tags --always --dirty)
ARCHS   ?= amd64 arm64
STAMP   := -X github.com/godwitdb/godwit/obs.stamp=$(VERSION)

# Without cgo, paths and the state of the checkout in it, the binary depends on source, Go and VERSION only.
release: ## static binaries for Linux in dist/, stamped with VERSION, with man pages, completion, what is in them (CycloneDX), and sums
	rm -rf dist/linux-* dist/man dist/completion dist/host dist/SHA256SUMS
	for arch in $(ARCHS); do \
	  CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -trimpath -buildvcs=false -ldflags '-s -w -buildid= $(STAMP)' \
	    -tags $(TAGS) -o dist/linux-$$arch/godwit ./cmd/godwit || exit 1; done
	cd tools/package && CGO_ENABLED=0 $(GO) build -o ../../dist/host .
	for arch in $(ARCHS); do \
	  (cd tools/package && ../../dist/host -sbom dist/linux-$$arch/godwit -version $(VERSION) -out dist/linux-$$arch/godwit.cdx.json) && \
	  $(GO) version -m dist/linux-$$arch/godwit > dist/linux-$$arch/modules.txt || exit 1; done
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '-s -w -buildid= $(STAMP)' -tags $(TAGS) -o dist/host ./cmd/godwit
	dist/host man dist/man
	mkdir -p dist/completion
	dist/host completion bash > dist/completion/godwit.bash
	dist/host completion zsh > dist/completion/_godwit
	dist/host completion fish > dist/completion/godwit.fish
	rm dist/host
	cd dist && sha256sum linux-*/godwit linux-*/godwit.cdx.json > SHA256SUMS

reproduce: ## build the release once more, in another folder and with a cache of its own, and compare it with the one in dist/
	@test -f dist/SHA256SUMS || (echo "there is nothing to compare with: run make release first" >&2; exit 1)
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && mkdir "$$dir/another" && \
	  git ls-files -z | tar c --null -T - | tar x -C "$$dir/another" && \
	  GOCACHE="$$dir/cache" $(MAKE) -C "$$dir/another" release VERSION=$(VERSION) ARCHS="$(ARCHS)" && \
	  cd dist && (cd "$$dir/another/dist" && cat SHA256SUMS) | sha256sum -c -

packages: ## deb and rpm of what 'make release' has made
	for arch in $(ARCHS); do \
	  rm -rf dist/linux-$$arch/man && cp -r dist/man dist/completion dist/linux-$$arch/ && gzip -9n dist/linux-$$arch/man/*.1 && \
	  (cd tools/package && CGO_ENABLED=0 $(GO) run . -version $(VERSION) -arch $$arch -dist dist/linux-$$arch) || exit 1; done

comma := ,
space := $(subst ,, )

image: ## an image of what 'make release' has made, for all of ARCHS, as an OCI layout in dist/image
	cd tools/package && CGO_ENABLED=0 $(GO) run . -image $(subst $(space),$(comma),$(strip $(ARCHS))) -version $(VERSION) -dist dist -out dist/image

test-packages: ## deb, rpm, image and bill of materials with what is in them, systemd's unit, Kubernetes' manifest; modules of their own
	cd tools/package && CGO_ENABLED=0 $(GO) test ./...

# What draws the diagrams of the documents, in the browser.
MERMAID := mermaid@11.17.2

site: ## the documents as a site in dist/site, which needs no other one; needs python3, npm and the internet, once
	test -x dist/venv/bin/mkdocs || (python3 -m venv dist/venv && dist/venv/bin/pip install -q -r tools/site/requirements.txt)
	test -f dist/mermaid/$(MERMAID) || (rm -rf dist/mermaid && mkdir -p dist/mermaid && cd dist/mermaid && \
	  npm pack --silent $(MERMAID) | xargs tar xzf && touch $(MERMAID))
	PYTHONDONTWRITEBYTECODE=1 NO_MKDOCS_2_WARNING=1 dist/venv/bin/mkdocs build --strict -q -f tools/site/mkdocs.yml

etcd: ## a peer of 'godwit bench peers'
	cd tools/etcd && $(GO) build -o ../../bin/etcd .

DEMO := $(BIN) demo --workload tpcc --beside travel --users 50 --stay 20s --think 100ms

demo: build ## five regions on emulated oceans, TPC-C and travellers; until Ctrl-C on a terminal, else one minute
	@if [ -t 1 ]; then $(DEMO); else $(DEMO) --for 60s; fi

# One package more than there are processors at once, as some wait for timers; those that take longest begin first.
# The timeout is for a busy machine. New goroutines begin with stacks of the usual size: a simulation begins many.
# Binaries of tests need no symbols for a debugger (-w): they take half of the time that the linker needs.
test: ## every test, with a few seeds and cases of each kind: the rest is in soak and e2e; vet is in lint
	GODEBUG=adaptivestackstart=1 $(GO) test -p $$(($$(getconf _NPROCESSORS_ONLN) + 1)) -vet=off -ldflags=-w -tags $(TAGS) -timeout 60m ./lab/sim ./node ./lab/e2e ./sql/changefeed ./sql/server ./...

e2e: ## real processes: kill -9 of nodes and regions under load, stock clients (minutes)
	GODWIT_LONG=1 $(GO) test -tags $(TAGS) ./lab/e2e -count=1 -timeout 60m

# One processor: in a bubble of testing/synctest two of them run channel timers in one context of the detector,
# which then dies (golang/go#78156). It finds races by order, not by what happened at once.
race: ## the core packages under the race detector
	$(GO) test -race -cpu 1 -ldflags=-w -timeout 60m -tags $(TAGS) -skip FanOutDoesNotLose ./base ./kv/... ./policy/... ./mechanism/... ./owner/... ./txn/... ./cluster ./lab/history

lint: ## format, vet, staticcheck, import table
	@test -z "$$(gofmt -l . | tee /dev/stderr)" || (echo "run make fmt"; exit 1)
	$(GO) vet -tags $(TAGS) ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 -tags $(TAGS) ./...
	$(GO) test ./tools/layers

fmt:
	gofmt -w .

# soak runs the seeds and cases that 'make test' leaves out. The tests besides TestSoak get a tenth of the
# seeds, as each of their seeds takes longer.
tenth = $$((($(SEEDS) + 9) / 10))

soak: ## the tests at full length, and many seeds of the simulation: make soak SEEDS=1000
	$(GO) test -tags $(TAGS) ./lab/sim -run 'TestSoak$$' -count=1 -timeout 0 -args -seeds $(SEEDS)
	$(GO) test -tags $(TAGS) ./lab/sim -run 'Soak$$' -skip 'TestSoak$$|TestAllSoak$$' -count=1 -timeout 0 -args -seeds $(tenth)
	$(GO) test -tags $(TAGS) ./mechanism/collective -count=1 -timeout 0 -args -seeds $(SEEDS)
	SEEDS=$(tenth) $(GO) test -tags $(TAGS) ./mechanism/group -run RandomFaults -count=1 -timeout 0
	$(GO) test -tags $(TAGS) ./txn/multimaster -count=1 -timeout 0 -args -seeds $(tenth)
	GODWIT_LONG=1 $(GO) test -tags $(TAGS) ./lab/sim ./lab/bench/... ./sql/... -count=1 -timeout 0

SOAK_DIR ?= $(HOME)/.cache/godwit/soak

# A run uses one processor, so JOBS of them share the seeds. Stacks begin as large as they become on average: it saves
# a tenth of the time.
JOBS ?= $(shell getconf _NPROCESSORS_ONLN)

soak-all: ## whole set of the simulation, seed by seed; stop it and start it again: it goes on. make soak-all SEEDS=10000
	$(GO) test -tags $(TAGS) -c -o bin/soak.test ./lab/sim
	cd lab/sim && export GODEBUG=adaptivestackstart=1 GODWIT_SOAK=$(SOAK_DIR) && for i in $$(seq $(JOBS)); do \
	  ../../bin/soak.test -test.run 'TestAllSoak$$' -test.timeout 0 -seeds $$((($(SEEDS) + $(JOBS) - 1) / $(JOBS))) \
	    -first $$((20000000 + 1000000 * (i - 1))) & pids="$$pids $$!"; done; \
	  for p in $$pids; do wait $$p || bad=1; done; test -z "$$bad"

bench: build ## the figures of docs/
	$(BIN) bench list

pgo: ## remake cmd/godwit/default.pgo, by which the compiler optimises; needs sysbench
	$(GO) build -pgo off -trimpath -tags $(TAGS) -o $(BIN) ./cmd/godwit
	./cmd/godwit/pgo.sh $(BIN)

proto: ## regenerate wire/*.pb.go; needs protoc, protoc-gen-go and protoc-gen-go-vtproto
	protoc --go_out=. --go_opt=paths=source_relative --go-vtproto_out=. \
	  --go-vtproto_opt=features=marshal+unmarshal+size,paths=source_relative wire/wire.proto

# The only input is public: Natural Earth's land as TopoJSON, whose licence is in the output.
WORLD_ATLAS := world-atlas@2.0.2

console: ## remake the console's map of the world (committed); needs npm
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && (cd "$$dir" && npm pack --silent $(WORLD_ATLAS) | xargs tar xzf) && \
	  $(GO) run ./tools/worldmap "$$dir/package/land-110m.json" node/console/assets/world.json

clean:
	rm -rf bin dist
