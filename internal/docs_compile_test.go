package internal_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDocsCode compiles the Go of the manual in its place in the tree, without putting it there, and runs the tests of
// the workload that the manual adds.
func TestDocsCode(t *testing.T) {
	dir := t.TempDir()
	tree, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	var packages []string
	for _, doc := range documents(t) {
		_, list := readDocument(t, doc)
		for _, b := range list {
			name, ok := b.mark("compile")
			if !ok {
				continue
			}
			file := filepath.Join(dir, strings.ReplaceAll(name, "/", "-"))
			if err := os.WriteFile(file, []byte(strings.Join(b.text, "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("gofmt", "-l", file).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%s:%d is not as gofmt would have it: %s", doc, b.first, out)
			}
			replace[filepath.Join(tree, filepath.FromSlash(name))] = file
			if p := "tare/" + path.Dir(name); !slices.Contains(packages, p) {
				packages = append(packages, p)
			}
		}
	}
	if len(packages) < 2 {
		t.Fatalf("the manual shows code of %v only", packages)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o644); err != nil {
		t.Fatal(err)
	}
	// The folders do not exist, so the go command cannot work in them: programs are built here, and one is started.
	programs := filepath.Join(dir, "programs") + string(filepath.Separator)
	if err := os.Mkdir(programs, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{
		append([]string{"go", "test", "-overlay", file, "-vet=off", "-c", "-o", programs}, packages...),
		{programs + "hash.test", "-test.count=1"},
	} {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = tree
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
		}
	}
}
