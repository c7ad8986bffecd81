package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	envall "tare/internal/lab/driver/all"
	"tare/internal/lab/env"
)

// driverFolders may say the names of drivers: the drivers themselves, the studies that compare certain ones, and what
// stands below the drivers, where such a word is a program, a device or a system that a guest finds.
var driverFolders = []string{"lab/driver/", "plan/study/", "measure/", "sys/"}

// driverPlaces are the files that really talk of certain drivers, with the reason.
var driverPlaces = []struct{ file, words, reason string }{
	{"bundle/redact/masklearn.go", "docker incus kubectl lima multipass podman qemu vagrant wsl",
		"words that stand in everybody's bundles, those of older releases included"},
	{"bundle/redact/maskspec.go", "vagrant", "a program of command lines"},
	{"cli/durability.go", "vm=qemu", "the default of a flag"},
	{"cli/fleet_run.go", "kubectl ssh", "flags that set how a fleet's hosts are reached"},
	{"cli/fleet_run_engines.go", "ssh:", "a fleet's engine that runs tare on hosts by OpenSSH"},
	{"cli/stack.go", "box=namespace?net=host", "the default of a flag"},
	{"run/dispatch/kubernetes.go", "kubectl", "a program that a fleet's engine runs"},
	{"run/durability/audit.go", "libvirt qemu", "forms of configuration that tare durability reads"},
	{"run/durability/declare.go", "nfs smb", "the settings of these two servers, read as their own configuration"},
	{"show/report/issue.go", "libvirt", "a product's name for people"},
}

// plainWords are drivers' names that are words of everyday, too: one counts where drivers are spoken of.
var plainWords = []string{"command", env.Host, "local", "namespace", "serial", "ssh"}

var (
	aboutDriversRE = regexp.MustCompile(`(?i)driver`)
	mountOfRE      = regexp.MustCompile(`(?i)(^|\.)(m|mount)\.Kind$`)
)

// driverWords returns the literals of a file that name a driver, or a spec of one, and those with which a mount's kind
// is compared, by their lines.
func driverWords(src []byte, drivers, kinds []string) (map[string]int, error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, "", src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	specRE := regexp.MustCompile(`^(?:[\w-]+=)?(` + strings.Join(drivers, "|") + `)(?:[:?]\S*)?$`)
	found := map[string]int{}
	text := func(n ast.Node) string { return string(src[n.Pos()-1 : n.End()-1]) }
	var around []ast.Node // from the file to the node
	ast.Inspect(f, func(n ast.Node) bool {
		if n == nil {
			around = around[:len(around)-1]
			return true
		}
		around = append(around, n)
		if field, ok := n.(*ast.Field); ok && field.Tag != nil {
			return true
		}
		l, ok := n.(*ast.BasicLit)
		if !ok || l.Kind != token.STRING {
			return true
		}
		v, err := strconv.Unquote(l.Value)
		if err != nil {
			return true
		}
		parent := around[len(around)-2]
		m := specRE.FindStringSubmatch(v)
		switch {
		case m != nil && (!slices.Contains(plainWords, v) || aboutDriversRE.MatchString(spoken(around, text))):
			found[v] = files.Position(l.Pos()).Line
		case slices.Contains(kinds, v):
			if b, ok := parent.(*ast.BinaryExpr); ok && mountOfRE.MatchString(text(b.X)) {
				found[v] = files.Position(l.Pos()).Line
			}
		}
		return true
	})
	return found, nil
}

// spoken is what is said around a literal: the smallest statement, key and value, or declaration that it is in, and of
// a case also what is switched on.
func spoken(around []ast.Node, text func(ast.Node) string) string {
	for i, n := range slices.Backward(around) {
		switch n := n.(type) {
		case *ast.CaseClause:
			for _, outer := range slices.Backward(around[:i]) {
				if s, ok := outer.(*ast.SwitchStmt); ok && s.Tag != nil {
					return text(s.Tag)
				} else if ok {
					break
				}
			}
			said := ""
			for _, x := range n.List {
				said += text(x) + " "
			}
			return said
		case *ast.KeyValueExpr:
			if around[i+1] != n.Key {
				return text(n.Key)
			}
		case *ast.IfStmt:
			return text(n.Cond)
		case *ast.BinaryExpr, *ast.AssignStmt, *ast.ValueSpec, *ast.ExprStmt, *ast.ReturnStmt, *ast.RangeStmt:
			return text(n)
		case *ast.BlockStmt:
			return ""
		}
	}
	return ""
}

// TestDriversSayWhatTheyAre holds that who wants to know what an environment is asks its driver's row (env.Nature) and
// does not compare names, so that a new driver, or another name, is judged by what it is.
func TestDriversSayWhatTheyAre(t *testing.T) {
	names := append(envall.Known().Names(), env.Host)
	kinds := map[string]bool{}
	for _, d := range envall.Known().All() {
		for _, k := range d.Mounts {
			kinds[k.Name] = true
		}
	}
	excused := map[[2]string]bool{} // whether it was needed
	for _, p := range driverPlaces {
		for word := range strings.FieldsSeq(p.words) {
			excused[[2]string{p.file, word}] = false
		}
	}
	all := product(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if slices.ContainsFunc(driverFolders, func(dir string) bool { return strings.HasPrefix(name, dir) }) {
			continue
		}
		found, err := driverWords(all[name], names, slices.Collect(maps.Keys(kinds)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for word, line := range found {
			if _, ok := excused[[2]string{name, word}]; !ok {
				t.Errorf("%s:%d says %q: ask the driver's row what you want to know (lab/env/nature.go)", name, line,
					word)
			}
			excused[[2]string{name, word}] = true
		}
	}
	for place, needed := range excused {
		if !needed {
			t.Errorf("driverPlaces excuses %q in %s, where it is no more", place[1], place[0])
		}
	}
}

// TestDriverWordsSees holds that names of drivers are found where they decide something, and that words of everyday
// are not.
func TestDriverWordsSees(t *testing.T) {
	for line, want := range map[string]string{
		`var x = s.Driver == "local"`:                                    "local",
		`var x = "local" == s.Driver`:                                    "local",
		`var onDrivers = map[string]bool{"namespace": true}`:             "namespace",
		`var x = slices.Contains([]string{"ssh"}, e.Spec.Driver)`:        "ssh",
		`func f() { switch s.Driver { case "command": g() } }`:           "command",
		`func f() { if driver == "host" { g() } }`:                       "host",
		`var x = Spec{Name: "vm", Driver: "local"}`:                      "local",
		`func f() { for _, d := range Drivers() { use(d, "serial") } }`:  "",
		`var x = strings.HasPrefix(t.Hypervisor, "virtualbox")`:          "virtualbox",
		`const vbox = "virtualbox"`:                                      "virtualbox",
		`var x = parse("box=namespace?net=host")`:                        "box=namespace?net=host",
		`var x = parse("docker:debian")`:                                 "docker:debian",
		`var x = e.Mount.Kind == "disk"`:                                 "disk",
		`var x = m.Kind != "9p"`:                                         "9p",
		`var x = w.Kind == "disk"`:                                       "",
		`var x = map[string]string{"host": "x", "command": "y"}`:         "",
		`var x = flag("ssh", "settings of ssh: key=value")`:              "",
		`type x struct { Host string ` + "`json:\"host\"`" + ` }`:        "",
		`var x = "the command line of qemu: a text"`:                     "",
		`func f() { switch w.Kind { case "command": s.Driver = name } }`: "",
	} {
		found, err := driverWords([]byte("package x\n"+line+"\n"), append(envall.Known().Names(), env.Host),
			[]string{"disk", "9p"})
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if got := strings.Join(slices.Sorted(maps.Keys(found)), " "); got != want {
			t.Errorf("%s: found %q, want %q", line, got, want)
		}
	}
}
