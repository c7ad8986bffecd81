# make build   bin/tare (with all agents inside) and bin/tare-agent
# make check   vet, lint of what changed, unit tests: under a minute, for the inner loop
# make test    everything, real servers included; installs what is missing
# make bench   side by side with fio, sysbench, mbw and hyperfine, as ratios, into bench/results.md
# make man     the manual pages, in bin/man
# make demo    measure this machine in a few minutes
# make gallery the project's own gallery, of a run of each study, in dist/gallery
# make release all files of a release, in dist, from the tag of this commit; docs/releasing.md

SHELL    := /bin/bash
GO       ?= go
PLATFORMS := linux_amd64 linux_arm64 linux_riscv64 darwin_arm64 windows_amd64 windows_arm64 freebsd_amd64
# Where tare why traces in the environment: package sys/trace knows the calls' names there.
TRACERS  := linux_amd64 linux_arm64
AGENTS   := internal/lab/deploy/agents
SOURCES  := $(shell find cmd internal \( -name '*.go' ! -name '*_test.go' \) -o -name '*.s' 2>/dev/null) go.mod go.sum
# The build id is the same for the controller and all agents of one source tree, and for no other.
BUILD    := $(shell cat $(sort $(SOURCES)) | sha256sum | cut -c1-16)
# The version is that of the commit's tag. Without one it is what internal/version says: the release before.
VERSION  := $(patsubst v%,%,$(shell git describe --exact-match --dirty --tags --match 'v[0-9]*' 2>/dev/null))
LDFLAGS  := -s -w -X tare/internal/version.Build=$(BUILD) $(VERSION:%=-X tare/internal/version.Version=%)
# What says a version is built again when there is another one.
NAMED    := bin/.version-$(VERSION)
GOBUILD  := $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)'
# With cgo the standard library and all that stands on it would be compiled once more, for vet and lint alone.
export CGO_ENABLED := 0

# The report page. Its sources are no part of the build id: agents do not change with it.
PAGE     := internal/show/report/page/dist/page.html
WEB      := $(shell find web -path web/node_modules -prune -o -type f -print 2>/dev/null)
HAS_NODE := $(shell command -v npm 2>/dev/null)

.PHONY: build man agents web check vet lint lint-changed house tidy unit test beforehand test-real fuzz bench demo gallery release clean deps
build: bin/tare bin/tare-agent

agents: $(PLATFORMS:%=$(AGENTS)/tare-agent_%.gz) $(TRACERS:%=$(AGENTS)/tare-tracer_%.gz)

$(NAMED):
	@mkdir -p bin && rm -f bin/.version-* && touch $@

# agent makes a rule for a command that goes into environments.
define agent
$(AGENTS)/$(1)_%.gz: $(SOURCES) $(NAMED)
	@mkdir -p $(AGENTS)
	GOOS=$$(word 1,$$(subst _, ,$$*)) GOARCH=$$(word 2,$$(subst _, ,$$*)) $(GOBUILD) -o $(AGENTS)/$(1)_$$*.tmp ./cmd/$(1)
	gzip -9 -n -c $(AGENTS)/$(1)_$$*.tmp > $$@
	@rm -f $(AGENTS)/$(1)_$$*.tmp
endef
$(eval $(call agent,tare-agent))
$(eval $(call agent,tare-tracer))

# Without Node.js the page is no file to wait for, and the script says what the build goes without.
ifeq ($(HAS_NODE),)
web:
	@scripts/web.sh
bin/tare: | web
else
web: $(PAGE)
$(PAGE): $(WEB) docs/report.schema.json scripts/web.sh
	scripts/web.sh
bin/tare: $(PAGE)
endif

bin/tare: agents $(SOURCES) $(wildcard contrib/* contrib/*/*) $(NAMED)
	@mkdir -p bin
	$(GOBUILD) -tags bundle -o $@ ./cmd/tare

bin/tare-agent: $(SOURCES) $(NAMED)
	@mkdir -p bin
	$(GOBUILD) -o $@ ./cmd/tare-agent

man: bin/tare
	rm -rf bin/man
	bin/tare man bin/man

check: vet lint-changed tidy unit

# Each module is asked for what it uses, and for no more. It changes nothing.
tidy:
	$(GO) mod tidy -diff
	cd tools && $(GO) mod tidy -diff

vet:
	$(GO) vet ./...
	@test -z "$$(gofmt -l cmd internal bench scripts 2>/dev/null)" || { gofmt -l cmd internal bench scripts; echo "run gofmt -w on these"; exit 1; }

# What go vet and staticcheck cannot know: who may import whom, and that each package and finding is in the manual.
HOUSE := ^Test(ArrowsPointDown|Places|OptionalInterfaces|DriversSayWhatTheyAre|AgentDependencies|OnlyProcRunsCommands|DocsArchitecture|DocsCodes|DocsLinks|DocsDecisions|MarkdownFitsColumns|GoFitsColumns|KindsAreAskedWhatTheyAre|KindLiterals)$$
lint: house
	$(GO) tool -modfile=tools/go.mod staticcheck ./...
	scripts/web.sh lint

house:
	$(GO) test -count=1 -vet=off -ldflags="-s -w" -run '$(HOUSE)' ./internal

# What differs from the branch that this one is to join. For the first package staticcheck looks through all that it
# imports, the standard library included, which takes a minute; make lint, and so make test, does all of it.
UPSTREAM ?= @{upstream}
lint-changed: house
	@files=$$(scripts/changed.sh "$(UPSTREAM)" '*.go' ':!tools') && echo "$$files" | xargs -r -n1 dirname | sort -u | sed 's|^|./|' | xargs -r $(GO) tool -modfile=tools/go.mod staticcheck
	@files=$$(scripts/changed.sh "$(UPSTREAM)" web) && if [ -n "$$files" ]; then scripts/web.sh lint; fi

# The inner loop: no VM, no browser, and of servers, disks and simulations what is quick. What is named TestReal starts
# servers beside tests that do not. make vet was before; without symbols and DWARF a test binary is linked in a third of
# the time.
REAL := internal/lab/(driver/(command|container|libvirt|local|namespace|qemu|serial|ssh|vagrant|virtualbox|vmware)|libvirttest|medium)|internal/cli|internal/sys/proc|internal/lab/deploy|workload/command|sys/sql/(mysql|postgres)|measure/(dbserver|netpeer|workload/(sql|web))|sys/iperf3|run/(capture|durability|supply)|^tare/bench|^tare/internal$$
unit:
	$(GO) test -short -skip '^TestReal' -vet=off -ldflags="-s -w" $$($(GO) list ./... | grep -Ev '$(REAL)')

deps:
	scripts/deps.sh test

# Everything. TARE_REQUIRE turns every skip for a missing program into a failure. What is missing is installed while the
# program is built. What is built, vetted and tested is compiled in one way, so that it is once.
test: export GOFLAGS = $(strip $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath)
test:
	+$(MAKE) --no-print-directory -j2 deps beforehand
	scripts/test.sh

# One after the other: what vet reads is made by build. Lint comes while tests wait, in test.sh.
beforehand: build
	+$(MAKE) --no-print-directory vet

fuzz:
	scripts/fuzz.sh

bench: build
	scripts/deps.sh bench
	bin/tare guest fetch
	TARE_OHA=$$(scripts/deps.sh oha) $(GO) run ./bench -length 500ms -o bench/results.md

demo:
	scripts/demo.sh

gallery: bin/tare
	bin/tare gallery dist/gallery testdata/studies/*.tare --title 'What environments cost'

release: web agents
	TARE_VERSION='$(VERSION)' TARE_LDFLAGS='$(LDFLAGS)' scripts/release.sh $(RELEASEFLAGS)

clean:
	rm -rf bin dist $(AGENTS)/*.gz $(PAGE)
