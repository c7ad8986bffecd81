package microvm

import (
	"slices"
	"strings"
)

// unspoken lists modules that others request from the kernel at run time without declaring it, or not in all versions.
// A guest has no modprobe for the kernel to call, so they must be loaded beforehand.
var unspoken = map[string][]string{
	"cifs":      {"ctr", "ghash", "nls_utf8"}, // AES-GCM in software; the default character set of Debian's kernels
	"gcm":       {"ctr", "ghash"},
	"ccm":       {"ctr"},
	"ext4":      {"crc32c"},
	"libcrc32c": {"crc32c"},
	"btrfs":     {"crc32c", "xxhash64", "sha256", "blake2b_256"},
}

// softWords returns the names in a module's soft dependency: "pre: crc32c post: x". Some modules omit the "pre:".
func softWords(s string) []string {
	var names []string
	for w := range strings.FieldsSeq(s) {
		if w != "pre:" && w != "post:" {
			names = append(names, w)
		}
	}
	return names
}

// learn parses modules.softdep ("softdep NAME pre: NAME...") and modules.alias ("alias PATTERN NAME"). Other lines are
// skipped.
func (x *Index) learn(softdep, alias []byte) {
	for line := range strings.Lines(string(softdep)) {
		f := strings.Fields(line)
		if len(f) > 2 && f[0] == "softdep" {
			name := strings.ReplaceAll(f[1], "-", "_")
			x.asks[name] = append(x.asks[name], softWords(strings.Join(f[2:], " "))...)
		}
	}
	for line := range strings.Lines(string(alias)) {
		f := strings.Fields(line)
		if len(f) == 3 && f[0] == "alias" && plainAlias(f[1]) {
			name := strings.ReplaceAll(f[2], "-", "_")
			x.aliases[f[1]] = append(x.aliases[f[1]], name)
		}
	}
}

// plainAlias tells whether an alias is a plain word. Patterns and aliases with a colon belong to devices.
func plainAlias(a string) bool { return a != "" && !strings.ContainsAny(a, "*?[: \t\n") }

// asked returns the modules that a module requests and that exist as files. An alias stands for every module of
// software cryptography that has it, as for modprobe; the kernel then chooses the fastest that works on this CPU.
func (x *Index) asked(name string) []string {
	var names []string
	for _, w := range slices.Concat(x.asks[name], unspoken[name]) {
		plain := strings.ReplaceAll(w, "-", "_")
		if x.files[plain] != "" {
			names = append(names, plain)
			continue
		}
		for _, alias := range []string{w, strings.ReplaceAll(w, "_", "-"), "crypto-" + w} {
			for _, n := range x.aliases[alias] {
				if isCrypto(x.files[n]) && !slices.Contains(names, n) {
					names = append(names, n)
				}
			}
		}
	}
	return names
}

// Companions returns the modules that should be loaded before the named ones, because the named ones, or their
// dependencies, request them at run time: the ciphers of SMB, the checksums of btrfs. Modules that are missing, or
// whose dependencies are, are left out.
func (x *Index) Companions(names ...string) []string {
	var found []string
	seen := map[string]bool{}
	for todo := slices.Clone(names); len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		todo = append(todo, x.deps[name]...)
		for _, n := range x.asked(name) {
			if seen[n] || slices.Contains(names, n) {
				continue
			}
			if _, err := x.Resolve(n); err != nil {
				continue
			}
			found = append(found, n)
			todo = append(todo, n)
		}
	}
	// Modules that were found later are requested by those found earlier.
	slices.Reverse(found)
	return compact(found)
}

// compact removes duplicates and keeps the first.
func compact(names []string) []string {
	var kept []string
	seen := map[string]bool{}
	for _, n := range names {
		if !seen[n] {
			kept = append(kept, n)
		}
		seen[n] = true
	}
	return kept
}
