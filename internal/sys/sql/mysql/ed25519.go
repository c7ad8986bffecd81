package mysql

import (
	"crypto/ecdh"
	"crypto/rand"
	"crypto/sha512"
	"errors"
	"fmt"
	"math/big"
	"slices"
)

// MariaDB's client_ed25519 signs the server's random bytes with Ed25519 (RFC 8032). The private key is the SHA-512 of
// the password instead of the SHA-512 of a random seed of 32 bytes, so crypto/ed25519 cannot be used. But X25519 (RFC
// 7748) computes multiples of the same base point, on the same curve in another form, without the sign of the x
// coordinate. The sign follows from a second multiple. So the operations with secrets are those of crypto/ecdh, in
// constant time, except one product of two numbers.

// point is a point of edwards25519; the coordinates are modulo curve.prime.
type point struct{ x, y *big.Int }

// curve contains the constants of edwards25519.
type curve struct {
	prime, order, d *big.Int
	step            point // 8 times the base point
}

func newCurve() *curve {
	one := big.NewInt(1)
	c := &curve{prime: new(big.Int).Lsh(one, 255), order: new(big.Int).Lsh(one, 252)}
	c.prime.Sub(c.prime, big.NewInt(19))
	tail, _ := new(big.Int).SetString("27742317777372353535851937790883648493", 10)
	c.order.Add(c.order, tail)
	c.d = c.quotient(big.NewInt(-121665), big.NewInt(121666))
	y := c.quotient(big.NewInt(4), big.NewInt(5))
	x := c.root(y)
	if x.Bit(0) != 0 {
		x.Sub(c.prime, x)
	}
	c.step = point{x, y}
	for range 3 {
		c.step = c.add(c.step, c.step)
	}
	return c
}

// quotient is a/b modulo prime.
func (c *curve) quotient(a, b *big.Int) *big.Int {
	q := new(big.Int).ModInverse(new(big.Int).Mod(b, c.prime), c.prime)
	if q == nil { // b is 0
		return new(big.Int)
	}
	q.Mul(q, a)
	return q.Mod(q, c.prime)
}

// root returns one of the two x for a y, or nil if no point has this y.
func (c *curve) root(y *big.Int) *big.Int {
	one := big.NewInt(1)
	square := new(big.Int).Mul(y, y)
	below := new(big.Int).Mul(square, c.d)
	return new(big.Int).ModSqrt(c.quotient(square.Sub(square, one), below.Add(below, one)), c.prime)
}

// add adds two points (RFC 8032, 5.1.4).
func (c *curve) add(p, q point) point {
	mul := func(a, b *big.Int) *big.Int { return new(big.Int).Mul(a, b) }
	one, xx, yy := big.NewInt(1), mul(p.x, q.x), mul(p.y, q.y)
	k := mul(c.d, mul(xx, yy))
	x := mul(p.x, q.y)
	x.Add(x, mul(p.y, q.x))
	return point{
		c.quotient(x, new(big.Int).Add(one, k)),
		c.quotient(new(big.Int).Add(xx, yy), new(big.Int).Sub(one, k)),
	}
}

// clamp makes a scalar of 32 bytes, a multiple of 8, as in RFC 7748 and RFC 8032.
func clamp(b []byte) []byte {
	s := slices.Clone(b[:32])
	s[0] &= 248
	s[31] = s[31]&127 | 64
	return s
}

// y returns the y coordinate of a multiple of the base point: (u-1)/(u+1), where u is from X25519 (RFC 7748, 4.1).
func (c *curve) y(scalar []byte) (*big.Int, error) {
	key, err := ecdh.X25519().NewPrivateKey(scalar)
	if err != nil {
		return nil, err
	}
	u, one := number(key.PublicKey().Bytes()), big.NewInt(1)
	return c.quotient(new(big.Int).Sub(u, one), new(big.Int).Add(u, one)), nil
}

// multiple returns the encoded multiple of the base point (RFC 8032, 5.1.2).
func (c *curve) multiple(scalar []byte) ([]byte, error) {
	y, err := c.y(scalar)
	if err != nil {
		return nil, err
	}
	further := slices.Clone(scalar) // plus 8
	for i, carry := 0, 8; i < len(further) && carry > 0; i++ {
		carry += int(further[i])
		further[i] = byte(carry)
		carry >>= 8
	}
	next, err := c.y(further)
	if err != nil {
		return nil, err
	}
	x := c.root(y)
	if x == nil {
		return nil, errors.New("no point has this y coordinate")
	}
	if c.add(point{x, y}, c.step).y.Cmp(next) != 0 {
		x.Sub(c.prime, x)
	}
	p := little(y)
	p[31] |= byte(x.Bit(0)) << 7
	return p, nil
}

// number reads a little-endian number, and little writes one of 32 bytes.
func number(b []byte) *big.Int {
	b = slices.Clone(b)
	slices.Reverse(b)
	return new(big.Int).SetBytes(b)
}

func little(n *big.Int) []byte {
	b := n.FillBytes(make([]byte, 32))
	slices.Reverse(b)
	return b
}

// hashed returns the SHA-512 of the parts as a number modulo the order of the base point.
func (c *curve) hashed(parts ...[]byte) *big.Int {
	sum := sha512.Sum512(slices.Concat(parts...))
	n := number(sum[:])
	return n.Mod(n, c.order)
}

// signEd25519 returns the signature of a message with a password.
func signEd25519(message []byte, password string) ([]byte, error) {
	c := newCurve()
	expanded := sha512.Sum512([]byte(password))
	secret := clamp(expanded[:])
	public, err := c.multiple(secret)
	if err != nil {
		return nil, fmt.Errorf("sign with ed25519: %w", err)
	}
	// RFC 8032 derives the nonce from key and message only. A random nonce is as valid, and is clamped for X25519.
	var salt [32]byte
	rand.Read(salt[:])
	once := sha512.Sum512(slices.Concat(expanded[32:], salt[:], message))
	nonce := clamp(once[:])
	r, err := c.multiple(nonce)
	if err != nil {
		return nil, fmt.Errorf("sign with ed25519: %w", err)
	}
	s := c.hashed(r, public, message)
	s.Mul(s, number(secret))
	s.Add(s, number(nonce))
	s.Mod(s, c.order)
	return append(r, little(s)...), nil
}
