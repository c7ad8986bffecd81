package microvm

import (
	"slices"
	"testing"
)

const (
	softDepText = `kernel/fs/cifs/cifs.ko: kernel/lib/crc.ko
kernel/lib/crc.ko:
kernel/crypto/hmac.ko:
kernel/crypto/gcm.ko:
kernel/crypto/ctr.ko:
kernel/crypto/ghash-generic.ko:
kernel/crypto/sha256_generic.ko:
kernel/arch/x86/crypto/sha256-ssse3.ko:
kernel/drivers/crypto/padlock-sha.ko:
kernel/crypto/broken.ko: kernel/crypto/gone.ko
kernel/crypto/crc32c_generic.ko:
`
	softText = "# comment\nsoftdep cifs gcm nothing\nsoftdep cifs pre: hmac sha256 broken post: cifs\n" +
		"softdep crc pre: crypto-crc32c\n"
	aliasText = "# comment\nalias sha256 sha256_generic\nalias crypto-sha256 sha256-ssse3\n" +
		"alias sha256 sha256_ssse3\nalias sha256 padlock_sha\n" +
		"alias pci:v*d* cifs\nalias crypto-crc32c crc32c_generic\nalias crypto-ghash ghash_generic\nalias one\n"
)

func TestCompanionsAreWhatModulesAskFor(t *testing.T) {
	x, err := ParseIndex([]byte(softDepText), nil)
	if err != nil {
		t.Fatal(err)
	}
	x.learn([]byte(softText), []byte(aliasText))
	got := x.Companions("cifs")
	want := []string{"crc32c_generic", "ctr", "gcm", "ghash_generic", "hmac", "sha256_generic", "sha256_ssse3"}
	if sorted := slices.Sorted(slices.Values(got)); !slices.Equal(sorted, want) {
		t.Errorf("got %v, want %v", sorted, want)
	}
	if slices.Index(got, "ctr") > slices.Index(got, "gcm") {
		t.Errorf("gcm comes before what it asks for: %v", got)
	}
	if got := x.Companions("hmac", "nothing"); len(got) != 0 {
		t.Errorf("what asks for nothing has %v", got)
	}
	if _, err := x.Resolve(append(x.Companions("cifs"), "cifs")...); err != nil {
		t.Errorf("they cannot be loaded: %v", err)
	}
}

func FuzzLearn(f *testing.F) {
	f.Add([]byte(softText), []byte(aliasText))
	f.Fuzz(func(t *testing.T, softdep, alias []byte) {
		x, err := ParseIndex([]byte(softDepText), nil)
		if err != nil {
			t.Fatal(err)
		}
		x.learn(softdep, alias)
		for _, n := range x.Companions("cifs", "crc") {
			if _, err := x.Resolve(n); err != nil {
				t.Errorf("companion %s cannot be loaded: %v", n, err)
			}
		}
	})
}
