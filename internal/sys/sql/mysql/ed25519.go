package mysql

import (
	"crypto/sha512"
	"slices"

	"filippo.io/edwards25519"
)

// MariaDB's client_ed25519 signs the server's random bytes with Ed25519 (RFC 8032). The private key is the SHA-512 of
// the password instead of the SHA-512 of a random seed of 32 bytes, so crypto/ed25519 cannot be used.

// expand returns the secret scalar of a password, and the prefix from which nonces are derived (RFC 8032, 5.1.5).
func expand(password string) (secret *edwards25519.Scalar, prefix []byte) {
	sum := sha512.Sum512([]byte(password))
	secret, err := edwards25519.NewScalar().SetBytesWithClamping(sum[:32])
	must(err)
	return secret, sum[32:]
}

// multiple returns the encoded multiple of the base point.
func multiple(n *edwards25519.Scalar) []byte {
	return new(edwards25519.Point).ScalarBaseMult(n).Bytes()
}

// hashed returns the SHA-512 of the parts as a number modulo the order of the base point.
func hashed(parts ...[]byte) *edwards25519.Scalar {
	sum := sha512.Sum512(slices.Concat(parts...))
	n, err := edwards25519.NewScalar().SetUniformBytes(sum[:])
	must(err)
	return n
}

// must panics: the only error of these functions is a wrong length.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// signEd25519 returns the signature of a message with a password (RFC 8032, 5.1.6).
func signEd25519(message []byte, password string) []byte {
	secret, prefix := expand(password)
	nonce := hashed(prefix, message)
	r := multiple(nonce)
	s := edwards25519.NewScalar().MultiplyAdd(hashed(r, multiple(secret), message), secret, nonce)
	return append(r, s.Bytes()...)
}
