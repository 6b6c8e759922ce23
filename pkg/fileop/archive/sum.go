package archive

import (
	"encoding/binary"
	"math/bits"
)

// sum256 computes SHA-256 (FIPS 180-4). crypto/sha256 is faster, but with it codex-fs, which
// is started for each confined request, would link and initialise the whole of Go's
// cryptography: see TestLinkedPackages of codex-fs. The zero value is not ready: see newSum.
type sum256 struct {
	state [8]uint32
	block [64]byte
	size  uint64 // number of bytes written
}

// sumConstants are the first 32 bits of the fractional parts of the cube roots of the first 64
// primes.
var sumConstants = [64]uint32{
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
}

func newSum() *sum256 {
	return &sum256{state: [8]uint32{
		0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
	}}
}

// write adds bytes.
func (s *sum256) write(b []byte) {
	for len(b) > 0 {
		at := int(s.size % uint64(len(s.block)))
		n := copy(s.block[at:], b)
		b = b[n:]
		s.size += uint64(n)
		if at+n == len(s.block) {
			s.compress()
		}
	}
}

// sum ends the computation and returns its result.
func (s *sum256) sum() [32]byte {
	length := s.size * 8
	s.write([]byte{0x80})
	for s.size%uint64(len(s.block)) != 56 {
		s.write([]byte{0})
	}
	s.write(binary.BigEndian.AppendUint64(nil, length))
	var out [32]byte
	for i, v := range s.state {
		binary.BigEndian.PutUint32(out[4*i:], v)
	}
	return out
}

// compress mixes the block into the state.
func (s *sum256) compress() {
	var w [64]uint32
	for i := range 16 {
		w[i] = binary.BigEndian.Uint32(s.block[4*i:])
	}
	for i := 16; i < len(w); i++ {
		a, b := w[i-15], w[i-2]
		w[i] = w[i-16] + w[i-7] +
			(bits.RotateLeft32(a, -7) ^ bits.RotateLeft32(a, -18) ^ a>>3) +
			(bits.RotateLeft32(b, -17) ^ bits.RotateLeft32(b, -19) ^ b>>10)
	}
	a, b, c, d, e, f, g, h := s.state[0], s.state[1], s.state[2], s.state[3], s.state[4], s.state[5], s.state[6], s.state[7]
	for i, v := range w {
		one := h + (bits.RotateLeft32(e, -6) ^ bits.RotateLeft32(e, -11) ^ bits.RotateLeft32(e, -25)) + (e&f ^ ^e&g) + sumConstants[i] + v
		two := (bits.RotateLeft32(a, -2) ^ bits.RotateLeft32(a, -13) ^ bits.RotateLeft32(a, -22)) + (a&b ^ a&c ^ b&c)
		h, g, f, e, d, c, b, a = g, f, e, d+one, c, b, a, one+two
	}
	for i, v := range [8]uint32{a, b, c, d, e, f, g, h} {
		s.state[i] += v
	}
}
