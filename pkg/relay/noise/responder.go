package noise

import (
	"crypto/ecdh"
	"crypto/mlkem"
)

// Responder is the executor's side of a handshake that has read message 1. Only one goroutine at a
// time may use it.
type Responder struct {
	redacted
	peer    PublicKey
	payload []byte
	random  entropy
	state   *symmetric // nil: the handshake is over

	// These are the initiator's keys from message 1. Message 2 is made with them.
	staticDH, ephemeralDH   *ecdh.PublicKey
	staticKEM, ephemeralKEM *mlkem.EncapsulationKey768
}

// NewResponder reads message 1. It succeeds for any peer that knows the executor's public key and
// the channel. So the caller must decide whether PeerKey may connect before it calls Finish.
// Message 1 may be a replay; the message that Finish returns is useless without the peer's private
// keys.
func NewResponder(id *Identity, channel Channel, message1 []byte) (*Responder, error) {
	return newResponder(id, channel, message1, system{})
}

func newResponder(id *Identity, channel Channel, message []byte, random entropy) (*Responder, error) {
	switch {
	case len(message) > maxNoise:
		return nil, errRequestLarge
	case len(message) < message1Overhead:
		return nil, errShort
	}
	r := &Responder{random: random, state: start(channel, &id.public)}
	if err := r.readMessage1(id, message); err != nil {
		return nil, handshakeFailed(err)
	}
	return r, nil
}

// PeerKey returns the initiator's static key. The initiator proves that it has
// the private key only when it can decrypt message 2.
func (r *Responder) PeerKey() PublicKey { return r.peer }

// Payload returns the payload of message 1: at most 61967 bytes that the peer has chosen.
func (r *Responder) Payload() []byte { return r.payload }

// readMessage1 reads the tokens skem, e, es, s, ss.
func (r *Responder) readMessage1(id *Identity, message []byte) error {
	s := r.state
	ciphertext, err := s.decryptAndHash(cut(&message, kemCipherSize))
	if err != nil {
		return err
	}
	secret, err := id.kem.Decapsulate(ciphertext)
	if err != nil {
		return err
	}
	s.mixKeyAndHash(secret)

	var e PublicKey
	copy(e.dh[:], cut(&message, dhSize))
	s.mixHash(e.dh[:])
	copy(e.kem[:], cut(&message, kemKeySize))
	s.mixHash(e.kem[:])
	if r.ephemeralDH, r.ephemeralKEM, err = e.parse(); err != nil {
		return err
	}
	if err := s.mixDH(id.dh, r.ephemeralDH); err != nil {
		return err
	}

	for _, static := range [][]byte{r.peer.dh[:], r.peer.kem[:]} {
		plain, err := s.decryptAndHash(cut(&message, len(static)+tagSize))
		if err != nil {
			return err
		}
		copy(static, plain)
	}
	if r.staticDH, r.staticKEM, err = r.peer.parse(); err != nil {
		return err
	}
	if err := s.mixDH(id.dh, r.staticDH); err != nil {
		return err
	}
	r.payload, err = s.decryptAndHash(message)
	return err
}

// Finish returns message 2, which has 3424 bytes. It ends the handshake. A second call returns an
// error.
func (r *Responder) Finish() (message2 []byte, session *Session, err error) {
	s := r.state
	r.state = nil
	if s == nil {
		return nil, nil, errSpent
	}
	message2, err = r.writeMessage2(s, nil)
	if err != nil {
		return nil, nil, handshakeFailed(err)
	}
	receive, send := s.split()
	return message2, &Session{send: send, receive: receive}, nil
}

// writeMessage2 writes the tokens ekem, skem, e, ee, se. The first ciphertext is
// not encrypted although a key exists, and neither are the ephemeral keys.
// Initiators expect an empty payload.
func (r *Responder) writeMessage2(s *symmetric, payload []byte) ([]byte, error) {
	ephemeral, err := r.random.ephemeral()
	if err != nil {
		return nil, err
	}
	secret, ciphertext := r.random.encapsulate(r.ephemeralKEM)
	message := append(make([]byte, 0, message2Size+len(payload)), ciphertext...)
	s.mixHash(ciphertext)
	s.mixKey(secret)

	secret, ciphertext = r.random.encapsulate(r.staticKEM)
	if message, err = s.encryptAndHash(message, ciphertext); err != nil {
		return nil, err
	}
	s.mixKeyAndHash(secret)

	e := ephemeral.public()
	message = append(message, e.dh[:]...)
	s.mixHash(e.dh[:])
	message = append(message, e.kem[:]...)
	s.mixHash(e.kem[:])
	if err := s.mixDH(ephemeral.dh, r.ephemeralDH); err != nil {
		return nil, err
	}
	if err := s.mixDH(ephemeral.dh, r.staticDH); err != nil {
		return nil, err
	}
	return s.encryptAndHash(message, payload)
}
