// Package wycheproof tests the cryptography that the program rests on with the vectors
// of Project Wycheproof, which hold what broke other implementations: X25519,
// ML-KEM-768, AES-256-GCM and HKDF for the Noise handshake (docs/spec/relay.md), and
// JSON Web Signatures for --ws-auth (docs/spec/wire.md §1.5).
//
// It is a module of its own, so that nobody who builds the program or runs its tests
// downloads 23 MB of vectors:
//
//	cd scripts/tools/wycheproof && GOWORK=off go test .
package wycheproof
