package noise

import "crypto/ecdh"

// Initiator is the harness's side of a handshake that waits for message 2. Only one goroutine at a
// time may use it.
type Initiator struct {
	redacted
	id        *Identity
	ephemeral keyPair
	state     *symmetric // nil: the handshake is over
}

// NewInitiator begins a handshake with the responder that has the given key, and returns message 1.
// The payload, at most 61967 bytes, is encrypted for the responder, but without forward secrecy. It
// can be replayed until the responder has answered.
func NewInitiator(id *Identity, responder PublicKey, channel Channel, payload []byte) (*Initiator, []byte, error) {
	return newInitiator(id, responder, channel, payload, system{})
}

func newInitiator(id *Identity, responder PublicKey, channel Channel, payload []byte, random entropy) (*Initiator, []byte, error) {
	if len(payload) > maxPayload {
		return nil, nil, errPayloadLarge
	}
	ephemeral, err := random.ephemeral()
	if err != nil {
		return nil, nil, handshakeFailed(err)
	}
	i := &Initiator{id: id, ephemeral: ephemeral, state: start(channel, &responder)}
	message, err := i.writeMessage1(&responder, payload, random)
	if err != nil {
		return nil, nil, handshakeFailed(err)
	}
	return i, message, nil
}

// writeMessage1 writes the tokens skem, e, es, s, ss.
func (i *Initiator) writeMessage1(responder *PublicKey, payload []byte, random entropy) ([]byte, error) {
	dh, kem, err := responder.parse()
	if err != nil {
		return nil, err
	}
	s := i.state
	secret, ciphertext := random.encapsulate(kem)
	message, err := s.encryptAndHash(make([]byte, 0, message1Overhead+len(payload)), ciphertext)
	if err != nil {
		return nil, err
	}
	s.mixKeyAndHash(secret)

	e := i.ephemeral.public()
	message = append(message, e.dh[:]...)
	s.mixHash(e.dh[:])
	message = append(message, e.kem[:]...)
	s.mixHash(e.kem[:])
	if err := s.mixDH(i.ephemeral.dh, dh); err != nil {
		return nil, err
	}

	for _, static := range [][]byte{i.id.public.dh[:], i.id.public.kem[:]} {
		if message, err = s.encryptAndHash(message, static); err != nil {
			return nil, err
		}
	}
	if err := s.mixDH(i.id.dh, dh); err != nil {
		return nil, err
	}
	return s.encryptAndHash(message, payload)
}

// Finish reads message 2. It ends the handshake, whether it succeeds or not. A second call returns
// an error.
func (i *Initiator) Finish(message []byte) (*Session, error) {
	s := i.state
	i.state = nil
	switch {
	case s == nil:
		return nil, errSpent
	case len(message) > maxNoise:
		return nil, errResponseLarge
	case len(message) < message2Size:
		return nil, errShort
	}
	payload, err := i.readMessage2(s, message)
	if err != nil {
		return nil, handshakeFailed(err)
	}
	if len(payload) > 0 {
		return nil, errPayloadNotEmpty
	}
	send, receive := s.split()
	return &Session{send: send, receive: receive}, nil
}

// readMessage2 reads the tokens ekem, skem, e, ee, se. The first ciphertext and the ephemeral keys
// are not encrypted, although a key exists.
func (i *Initiator) readMessage2(s *symmetric, message []byte) (payload []byte, err error) {
	ciphertext := cut(&message, kemCipherSize)
	s.mixHash(ciphertext)
	secret, err := i.ephemeral.kem.Decapsulate(ciphertext)
	if err != nil {
		return nil, err
	}
	s.mixKey(secret)

	if ciphertext, err = s.decryptAndHash(cut(&message, kemCipherSize+tagSize)); err != nil {
		return nil, err
	}
	if secret, err = i.id.kem.Decapsulate(ciphertext); err != nil {
		return nil, err
	}
	s.mixKeyAndHash(secret)

	e, err := ecdh.X25519().NewPublicKey(cut(&message, dhSize))
	if err != nil {
		return nil, err
	}
	s.mixHash(e.Bytes())
	s.mixHash(cut(&message, kemKeySize)) // never used
	if err := s.mixDH(i.ephemeral.dh, e); err != nil {
		return nil, err
	}
	if err := s.mixDH(i.id.dh, e); err != nil {
		return nil, err
	}
	return s.decryptAndHash(message)
}
