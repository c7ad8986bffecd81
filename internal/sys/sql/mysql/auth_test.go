package mysql

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"
)

// The public key is the result of ed25519_password('secret') in MariaDB's manual, in base64.
func TestEd25519KeyOfManual(t *testing.T) {
	secret, _ := expand("secret")
	const want = "ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY="
	if got := base64.StdEncoding.EncodeToString(multiple(secret)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// For a password of 32 bytes the key is the one of RFC 8032, which the standard library can compute. It verifies all
// signatures.
func TestEd25519Signs(t *testing.T) {
	for i := range 200 {
		password := make([]byte, 32)
		rand.Read(password)
		if i%2 == 0 {
			password = password[:i/8]
		}
		secret, _ := expand(string(password))
		key := multiple(secret)
		if len(password) == 32 {
			want := ed25519.NewKeyFromSeed(password).Public().(ed25519.PublicKey)
			if !bytes.Equal(want, key) {
				t.Fatalf("the key of %x is %x, want %x", password, key, want)
			}
		}
		message := make([]byte, 32)
		rand.Read(message)
		if !ed25519.Verify(key, message, signEd25519(message, string(password))) {
			t.Fatalf("the signature with %x does not verify", password)
		}
	}
}

func keyPEM(t testing.TB, bits int) (*rsa.PrivateKey, string) {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return key, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func TestSeal(t *testing.T) {
	key, text := keyPEM(t, 2048)
	nonce, password := []byte("0123456789abcdefghij"), []byte("a password that is longer than the nonce\x00")
	sealed, err := seal([]byte(text), nonce, password)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := rsa.DecryptOAEP(sha1.New(), nil, key, sealed, nil)
	for i := range opened {
		opened[i] ^= nonce[i%len(nonce)]
	}
	if err != nil || !bytes.Equal(opened, password) {
		t.Errorf("decrypted %q, %v", opened, err)
	}
	if _, err := seal([]byte(text), nonce, make([]byte, 300)); err == nil || !strings.Contains(err.Error(), "use TLS") {
		t.Errorf("a password too long for the key: %v", err)
	}
}

func FuzzKey(f *testing.F) {
	_, text := keyPEM(f, 1024)
	f.Add(text)
	f.Add("-----BEGIN PUBLIC KEY-----\nMIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQ==\n-----END PUBLIC KEY-----")
	f.Add(strings.Replace(text, "MIG", "MIH", 1))
	f.Fuzz(func(t *testing.T, text string) {
		key, err := parseKey(text)
		if err != nil {
			return
		}
		// An accepted key can be used, or there is an error.
		_, _ = seal([]byte(text), []byte("nonce"), []byte("password"))
		block, _ := pem.Decode([]byte(text))
		if block == nil {
			return // parseKey accepts more text around the key
		}
		if other, err := x509.ParsePKIXPublicKey(block.Bytes); err == nil && !key.Equal(other) {
			t.Errorf("got %v, the standard library %v", key, other)
		}
	})
}
