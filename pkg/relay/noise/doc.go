// Package noise is the encrypted channel between a harness and an executor that meet at an
// untrusted relay: the hybrid IK handshake of the Noise protocol framework (X25519 and
// ML-KEM-768, AES-256-GCM, SHA-256), the records that follow it, and the messages inside
// the records.
//
// The harness initiates. It knows the executor's public key beforehand:
//
//	initiator, message1, err := noise.NewInitiator(id, executorKey, channel, authorization)
//	// send message1, receive message2
//	session, err := initiator.Finish(message2)
//
// The executor responds. It learns the harness's public key from message 1 and
// must have it checked before it answers:
//
//	responder, err := noise.NewResponder(id, channel, message1)
//	// ask whether responder.PeerKey() may connect, given responder.Payload()
//	message2, session, err := responder.Finish()
//
// Then both split messages into chunks (Chunks), seal each chunk as one record (Session.Seal), open
// received records in the order in which they were sealed (Session.Open), and reassemble the
// messages (MessageReader).
//
// The package does no I/O and starts no goroutines. Keys, and values that hold secrets,
// print as the name of the suite.
//
// The cipher states, with their nonces and counters, are those of github.com/flynn/noise. The
// handshake of that library has no key encapsulation, and its symmetric state is not exported, so
// this package implements that part. Noise's HKDF is the standard library's HKDF with the chaining
// key as salt.
//
// The rules are in docs/spec/relay.md §2, §3 and §4.
package noise
