package verdict

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/all"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/sys/sql/promise"
)

// flushSide is a place to write, or a server to write to: what a flush does there, and in which settings the server is
// not as it was delivered.
type flushSide struct {
	name, class string
	family      promise.Family // of the settings; "": all of them do well with this side
	set         string
}

var flushSides = []flushSide{
	{"cache=none", flushes, "", ""},
	{"cache=writeback", flushes, "", ""},
	{"cache=unsafe", "ignores-flushes", "", ""},
	{"nobarrier", "ignores-flushes", "", ""},
	{"tmpfs", "memory", "", ""},
	{"flush 0", flushes, promise.MySQL, "innodb_flush_log_at_trx_commit=0"},
	{"flush 2", flushes, promise.MySQL, "innodb_flush_log_at_trx_commit=2"},
	{"binary log not flushed", flushes, promise.MySQL, "sync_binlog=0"},
	{"nosync", flushes, promise.MySQL, "innodb_flush_method=nosync"},
	{"O_DIRECT", flushes, promise.MySQL, "innodb_flush_method=O_DIRECT"},
	{"no doublewrite", flushes, promise.MySQL, "innodb_doublewrite=OFF"},
	{"asynchronous", flushes, promise.PostgreSQL, "synchronous_commit=off"},
	{"local", flushes, promise.PostgreSQL, "synchronous_commit=local"},
	{"fsync=off", flushes, promise.PostgreSQL, "fsync=off"},
	{"half pages", flushes, promise.PostgreSQL, "full_page_writes=off"},
	{"open_datasync", flushes, promise.PostgreSQL, "wal_sync_method=open_datasync"},
	{"synchronous=OFF", flushes, promise.SQLite, "synchronous=OFF"},
	{"synchronous=NORMAL", flushes, promise.SQLite, "synchronous=NORMAL"},
	{"journal in memory", flushes, promise.SQLite, "journal_mode=memory"},
}

// asDelivered are the settings of each family.
var asDelivered = map[promise.Family]string{
	promise.MySQL: "mysql innodb_doublewrite=ON innodb_flush_log_at_trx_commit=1 innodb_flush_method=fsync " +
		"log_bin=ON sync_binlog=1",
	promise.PostgreSQL: "postgresql fsync=on full_page_writes=on synchronous_commit=on " +
		"synchronous_standby_names=none wal_sync_method=fdatasync",
	promise.SQLite: "sqlite journal_mode=delete synchronous=FULL",
}

// promises are the settings of a side's server.
func (s *flushSide) promises(family promise.Family) string {
	text := asDelivered[family]
	if s.family == family && text != "" {
		text += " " + s.set // the last one counts
	}
	return text
}

// sameAs are sides whose settings differ in words only.
var sameAs = map[string]string{"O_DIRECT": "cache=none", "local": "cache=none", "open_datasync": "cache=none",
	"cache=writeback": "cache=none", "nobarrier": "cache=unsafe"}

func likeSides(a, b flushSide) bool {
	same := func(name string) string {
		if s, ok := sameAs[name]; ok {
			return s
		}
		return name
	}
	return same(a.name) == same(b.name)
}

// writing is all work that writes what is meant to last, with the family of the server behind it.
var writing = map[promise.Family][]string{
	"": {"fs.seqwrite:fsync=none", "fs.seqwrite:fsync=end", "fs.randwrite:fsync=each", "fs.mixed:fsync=datasync-each",
		"fs.smallfiles:fsync=yes", "fs.matrix:fsync=no", "fs.matrix:fsync=yes", "fs.dd", "durability.fsync",
		"dev.edit:fsync=yes", "restore", "command:command=x,fsync=yes"},
	promise.SQLite: {"dev.journal:fsync=yes"},
	promise.MySQL: {"sql.oltp:mix=read-write", "sql.oltp:mix=write-only,server=mysql",
		"sql.oltp:mix=write-only,address=/run/db.sock,user=u,disposable=yes", "sql.replay:log=shop,writes=yes",
		"http.load:url=stack:/,method=POST", "http.replay:url=stack:/,log=x,writes=yes"},
	promise.PostgreSQL: {"sql.oltp:mix=read-write,server=postgresql", "sql.replay:log=x,writes=yes,server=postgresql",
		"restore:load=postgresql"},
}

// resolved is a workload as a plan has it.
func resolved(t *testing.T, text string) plan.Workload {
	t.Helper()
	name, rest, _ := strings.Cut(text, ":")
	k, ok := all.Lookup(name)
	if !ok {
		t.Fatalf("there is no kind %s", name)
	}
	given := map[string]string{}
	for _, pair := range strings.Split(rest, ",") {
		if key, v, ok := strings.Cut(pair, "="); ok {
			given[key] = v
		}
	}
	p, err := k.Resolve(given)
	if err != nil {
		t.Fatal(err)
	}
	return plan.Workload{Label: text, Kind: name, Params: p}
}

// TestFlushMatrix holds that no pair of sides that flush differently is ranked, by any kind of work that writes; that
// every other pair is; and that means are without what is withheld and say so.
func TestFlushMatrix(t *testing.T) {
	for family, texts := range writing {
		var work []plan.Workload
		for _, text := range texts {
			work = append(work, resolved(t, text))
		}
		work = append(work, resolved(t, "cpu.prime"), resolved(t, "fs.randread"), resolved(t, "dev.unpack"))
		var sides []flushSide
		for _, s := range flushSides {
			if s.family == "" || s.family == family {
				sides = append(sides, s)
			}
		}
		for i, a := range sides {
			for _, b := range sides[i:] {
				matrixPair(t, family, work, a, b)
			}
		}
	}
}

func matrixPair(t *testing.T, family promise.Family, work []plan.Workload, host, vm flushSide) {
	t.Helper()
	costs := map[string]float64{}
	for _, w := range work {
		costs[w.Label+" vm"] = 0.5
	}
	r := two(work...).costs(costs).envs(func(re *record.Environment) {
		re.Durability = &record.Durability{Class: map[string]string{"host": host.class, "vm": vm.class}[re.Name]}
	}).trials(func(tr *record.Trial) {
		side := map[string]*flushSide{"host": &host, "vm": &vm}[tr.Target]
		if text := side.promises(family); text != "" {
			tr.State[promise.State], tr.State[promise.DiskState] = text, promise.OnTarget
		}
	}).evaluate()
	name := fmt.Sprintf("%q: %s against %s", family, vm.name, host.name)
	unlike := !likeSides(host, vm)
	withheld := map[string]int{}
	for _, c := range r.Cells {
		w := work[slices.IndexFunc(work, func(w plan.Workload) bool { return w.Label == c.Workload })]
		l := lasting(&w)
		want := unlike && l.Ranked(c.Metric)
		warned := warning(&c, "durability-differs")
		if want != (warned != nil) || want != (c.Verdict == record.Withheld) || want != (c.Ratio.Center == 0) {
			t.Errorf("%s: %s %s: %s %.2f %v", name, c.Workload, c.Metric, c.Verdict, c.Ratio.Center, c.Warnings)
		}
		if warned != nil && !l.Flush.Waits() && strings.Contains(warned.Text, "does not wait") {
			t.Errorf("%s: %s never flushes: %s", name, c.Workload, warned.Text)
		}
		if want && c.Primary {
			withheld[c.Family]++
		}
	}
	for _, s := range r.Families {
		cells := 0
		for _, c := range r.Cells {
			if c.Primary && c.Family == s.Family && c.Ratio.Center > 0 {
				cells++
			}
		}
		if s.Cells != cells || s.Withheld != withheld[s.Family] {
			t.Errorf("%s: %+v, but %d cells have a ratio, and %d are withheld", name, s, cells, withheld[s.Family])
		}
	}
	for _, f := range r.Findings {
		never := slices.ContainsFunc(f.Workloads, func(label string) bool {
			l := lasting(&work[slices.IndexFunc(work, func(w plan.Workload) bool { return w.Label == label })])
			return !l.Flush.Waits()
		})
		if never && f.Code != "durability-differs" && strings.Contains(f.Text, "does not wait for the disk") {
			t.Errorf("%s: %s", name, f.Text)
		}
	}
}

// TestFlushMatrixIsWhole holds that a kind which may write what is meant to last is in the matrix.
func TestFlushMatrixIsWhole(t *testing.T) {
	in := map[string]bool{}
	for _, texts := range writing {
		for _, text := range texts {
			name, _, _ := strings.Cut(text, ":")
			in[name] = true
		}
	}
	writes := func(l workload.Lasting) bool { return l.Flush.Waits() || l.Flush == workload.FlushLater }
	for _, k := range all.Kinds() {
		found := writes(k.Lasts(nil))
		for _, p := range k.Params {
			for _, v := range append([]string{"true", "stack:/"}, p.Choices...) {
				for _, url := range []string{"", "stack:/"} {
					given := workload.Params{"url": url}
					maps.Copy(given, workload.Params{p.Name: v})
					found = found || writes(k.Lasts(given))
				}
			}
		}
		if found != in[k.Name] {
			t.Errorf("%s: writes %v, in the matrix %v", k.Name, found, in[k.Name])
		}
	}
}

// TestUnknownPromisesForbidNothing is about bundles of a tare that asked no server, and of a later one.
func TestUnknownPromisesForbidNothing(t *testing.T) {
	weak := "mysql innodb_flush_log_at_trx_commit=2"
	for _, c := range []struct {
		name, host, vm string
		differ         bool
	}{
		{"nothing is known", "", "", false},
		{"of one side", "", weak, false},
		{"another family", asDelivered[promise.PostgreSQL], weak, false},
		{"no such value", "mysql innodb_flush_log_at_trx_commit=7", weak, false},
		{"a later form", "{}", weak, false},
		{"alike", weak, weak, false},
		{"unlike", asDelivered[promise.MySQL], weak, true},
	} {
		w := resolved(t, "sql.oltp:mix=write-only")
		r := two(w).costs(map[string]float64{w.Label + " vm": 0.5}).trials(func(tr *record.Trial) {
			if text := map[string]string{"host": c.host, "vm": c.vm}[tr.Target]; text != "" {
				tr.State[promise.State] = text
			}
		}).evaluate()
		got := cell(t, r, w.Label, "", "vm")
		warned := warning(got, "durability-differs")
		if c.differ != (warned != nil) {
			t.Errorf("%s: %v", c.name, got.Warnings)
		}
		const want = "innodb_flush_log_at_trx_commit is 2 in vm and 1 in host, so vm promises less: a loss of power " +
			"may take transactions that were acknowledged; their writes cannot be ranked against each other; vm is " +
			"faster ("
		if warned != nil && (!strings.HasPrefix(warned.Text, want) ||
			!strings.HasSuffix(warned.Text, "because it does not wait for the disk")) {
			t.Errorf("%s: %s", c.name, warned.Text)
		}
	}
}

// TestServersElsewhere: of a server that has its data on another disk, the target's class says nothing.
func TestServersElsewhere(t *testing.T) {
	for _, w := range []plan.Workload{
		resolved(t, "sql.oltp:mix=write-only,address=/run/db.sock,user=u,disposable=yes"),
		resolved(t, "http.load:url=http://127.0.0.1/,method=POST"),
	} {
		for _, at := range []map[string]string{{}, {"host": promise.OnTarget}, {"vm": promise.OnTarget}} {
			r := two(w).envs(durable("memory")).trials(func(tr *record.Trial) {
				tr.State[promise.State] = asDelivered[promise.MySQL]
				if disk := at[tr.Target]; disk != "" {
					tr.State[promise.DiskState] = disk
				}
			}).evaluate()
			if c := cell(t, r, w.Label, "", "vm"); c.Verdict == record.Withheld {
				t.Errorf("%s, %v: %v", w.Label, at, c.Warnings)
			}
		}
	}
}

// TestPromisesThatChange: a setting that was changed while the trials ran makes the two sides unlike.
func TestPromisesThatChange(t *testing.T) {
	w := resolved(t, "sql.oltp:mix=write-only")
	r := two(w).trials(func(tr *record.Trial) {
		tr.State[promise.State] = asDelivered[promise.MySQL]
		if tr.Block > 6 && tr.Target == "vm" {
			tr.State[promise.State] = "mysql innodb_flush_log_at_trx_commit=0"
		}
	}).evaluate()
	if c := cell(t, r, w.Label, "", "vm"); warning(c, "durability-differs") == nil {
		t.Errorf("%+v", c)
	}
}

// TestMountsWriteAtHome: a stack's database lies on the disk of the environment, whatever mount its code is on.
func TestMountsWriteAtHome(t *testing.T) {
	w := resolved(t, "http.load:url=stack:/,method=POST")
	s := scene{targets: []string{"vm", "vm:9p"}, work: []plan.Workload{w}}.envs(func(re *record.Environment) {
		re.Durability = &record.Durability{Class: map[string]string{"vm": flushes, "vm:9p": "ignores-flushes"}[re.Name]}
	})
	if c := cell(t, s.evaluate(), w.Label, "", "vm:9p"); c.Verdict == record.Withheld {
		t.Errorf("%+v", c.Warnings)
	}
}
