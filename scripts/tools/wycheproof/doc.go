// Package wycheproof tests the cryptography that the program uses with the vectors of
// Project Wycheproof, which contain cases that broke other implementations: X25519,
// ML-KEM-768, AES-256-GCM and HKDF for the Noise handshake (docs/spec/relay.md), and
// JSON Web Signatures for --ws-auth (docs/spec/wire.md §1.5).
//
// It is a separate module, so that building or testing the program does not download
// 23 MB of vectors:
//
//	cd scripts/tools/wycheproof && GOWORK=off go test .
package wycheproof
