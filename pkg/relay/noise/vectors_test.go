package noise

import (
	"bytes"
	"crypto/ecdh"
	"crypto/mlkem"
	"crypto/mlkem/mlkemtest"
	"encoding/json"
	"errors"
	"os"
	"testing"
)

// vectors are handshakes that a second implementation made, and two in which Codex CLI took part.
// Bytes are in base64.
type vectors struct {
	ProtocolName string   `json:"protocol_name"`
	Suite        string   `json:"suite_tag"`
	Cases        []vector `json:"cases"`
}

type vector struct {
	Name           string            `json:"name"`
	ReplayAs       string            `json:"replay_as"`
	EnvironmentID  string            `json:"environment_id"`
	RegistrationID string            `json:"executor_registration_id"`
	StreamID       string            `json:"stream_id"`
	Prologue       []byte            `json:"prologue"`
	Seeds          map[string][]byte `json:"seeds"`
	PublicKeys     map[string][]byte `json:"public_keys"`
	Payload1       []byte            `json:"message1_payload"`
	Message1       []byte            `json:"message1"`
	Message2       []byte            `json:"message2"`
	HandshakeHash  []byte            `json:"handshake_hash"`
	KeyI2R         []byte            `json:"transport_key_initiator_to_responder"`
	KeyR2I         []byte            `json:"transport_key_responder_to_initiator"`
	InitiatorJSON  json.RawMessage   `json:"initiator_public_key_json"`
	ResponderJSON  json.RawMessage   `json:"responder_public_key_json"`

	Transcript []struct {
		Step string `json:"step"`
		H    []byte `json:"h"`
		CK   []byte `json:"ck"`
	} `json:"transcript"`
	Records []struct {
		Direction  string `json:"direction"` // i2r or r2i
		Plaintext  []byte `json:"plaintext"`
		Ciphertext []byte `json:"ciphertext"`
	} `json:"records"`
	// The responder must reject a message 1 that is cut or has flipped bits.
	MustReject []struct {
		Name   string `json:"name"`
		Length int    `json:"length"`
		FlipAt int    `json:"flip_at"`
		Flip   byte   `json:"flip"`
	} `json:"must_reject_message1"`
}

func readVectors(t testing.TB) vectors {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *vector) channel() Channel { return Channel{v.EnvironmentID, v.RegistrationID, v.StreamID} }

func (v *vector) pair(t testing.TB, name string) keyPair {
	t.Helper()
	dh, err := ecdh.X25519().NewPrivateKey(v.Seeds[name+"_x25519_private"])
	if err != nil {
		t.Fatalf("%s: got error %v, want no error", name, err)
	}
	kem, err := mlkem.NewDecapsulationKey768(v.Seeds[name+"_mlkem768_d_z"])
	if err != nil {
		t.Fatalf("%s: got error %v, want no error", name, err)
	}
	return keyPair{dh: dh, kem: kem}
}

func (v *vector) public(name string) PublicKey {
	var key PublicKey
	copy(key.dh[:], v.PublicKeys[name+"_x25519"])
	copy(key.kem[:], v.PublicKeys[name+"_mlkem768"])
	return key
}

// recorded is recorded entropy, which the tests replay.
type recorded struct {
	t              testing.TB
	pair           keyPair
	encapsulations [][]byte
}

func (r *recorded) ephemeral() (keyPair, error) { return r.pair, nil }

func (r *recorded) encapsulate(key *mlkem.EncapsulationKey768) (secret, ciphertext []byte) {
	secret, ciphertext, err := mlkemtest.Encapsulate768(key, r.encapsulations[0])
	if err != nil {
		r.t.Fatal(err)
	}
	r.encapsulations = r.encapsulations[1:]
	return secret, ciphertext
}

func (v *vector) initiatorEntropy(t testing.TB) *recorded {
	return &recorded{t, v.pair(t, "initiator_ephemeral"), [][]byte{v.Seeds["message1_skem_encaps_m"]}}
}

func (v *vector) responderEntropy(t testing.TB) *recorded {
	return &recorded{t, v.pair(t, "responder_ephemeral"), [][]byte{v.Seeds["message2_ekem_encaps_m"], v.Seeds["message2_skem_encaps_m"]}}
}

// state checks the symmetric state after a step.
func (v *vector) state(t *testing.T, step string, s *symmetric) {
	t.Helper()
	for _, want := range v.Transcript {
		if want.Step == step {
			if !bytes.Equal(s.h[:], want.H) || !bytes.Equal(s.ck[:], want.CK) {
				t.Errorf("after %s h is %x and ck %x, want %x and %x", step, s.h, s.ck, want.H, want.CK)
			}
			return
		}
	}
	t.Errorf("no step %s", step)
}

func TestNames(t *testing.T) {
	v := readVectors(t)
	if protocolName != v.ProtocolName || suite != v.Suite {
		t.Errorf("the names are %s and %s, want %s and %s", protocolName, suite, v.ProtocolName, v.Suite)
	}
	if message1Overhead != 3568 || message2Size != 3424 || maxPayload != 61967 {
		t.Errorf("the sizes are %d, %d and %d", message1Overhead, message2Size, maxPayload)
	}
}

func TestVectors(t *testing.T) {
	replayed := map[string]int{}
	for _, v := range readVectors(t).Cases {
		t.Run(v.Name, func(t *testing.T) {
			v.testBeginning(t)
			if v.ReplayAs != "responder" {
				replayed["initiator"]++
				t.Run("initiator", v.testInitiator)
			}
			if v.ReplayAs != "initiator" {
				replayed["responder"]++
				t.Run("responder", v.testResponder)
			}
		})
	}
	if replayed["initiator"] != 4 || replayed["responder"] != 4 {
		t.Errorf("replayed %v", replayed)
	}
}

func (v *vector) testBeginning(t *testing.T) {
	if got := v.channel().prologue(); !bytes.Equal(got, v.Prologue) {
		t.Errorf("the prologue is %x, want %x", got, v.Prologue)
	}
	s := newSymmetric()
	v.state(t, "init", s)
	s.mixHash(v.Prologue)
	v.state(t, "prologue", s)
	responder := v.public("responder_static")
	v.state(t, "premessage", start(v.channel(), &responder))
}

func (v *vector) testInitiator(t *testing.T) {
	id := newIdentity(v.pair(t, "initiator_static"))
	if id.PublicKey() != v.public("initiator_static") {
		t.Error("the public key is another")
	}
	i, message, err := newInitiator(id, v.public("responder_static"), v.channel(), v.Payload1, v.initiatorEntropy(t))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(message, v.Message1) {
		t.Error("message 1 is another")
	}
	v.state(t, "m1.payload", i.state)
	s := i.state
	payload, err := i.readMessage2(s, v.Message2)
	if err != nil || len(payload) > 0 {
		t.Fatalf("message 2: payload %q, %v", payload, err)
	}
	v.state(t, "m2.payload", s)

	i, _, err = newInitiator(id, v.public("responder_static"), v.channel(), v.Payload1, v.initiatorEntropy(t))
	if err != nil {
		t.Fatal(err)
	}
	session, err := i.Finish(v.Message2)
	if err != nil {
		t.Fatal(err)
	}
	v.testSession(t, session, "i2r", v.KeyI2R, v.KeyR2I)
}

func (v *vector) testResponder(t *testing.T) {
	id := newIdentity(v.pair(t, "responder_static"))
	if id.PublicKey() != v.public("responder_static") {
		t.Error("the public key is another")
	}
	r, err := newResponder(id, v.channel(), v.Message1, v.responderEntropy(t))
	if err != nil {
		t.Fatal(err)
	}
	if r.PeerKey() != v.public("initiator_static") || !bytes.Equal(r.Payload(), v.Payload1) {
		t.Errorf("key or payload is another: %q", r.Payload())
	}
	v.state(t, "m1.payload", r.state)
	s := r.state
	if _, err := r.writeMessage2(s, nil); err != nil {
		t.Fatal(err)
	}
	v.state(t, "m2.payload", s)
	if !bytes.Equal(s.h[:], v.HandshakeHash) {
		t.Errorf("the handshake hash is %x, want %x", s.h, v.HandshakeHash)
	}

	if r, err = newResponder(id, v.channel(), v.Message1, v.responderEntropy(t)); err != nil {
		t.Fatal(err)
	}
	message, session, err := r.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(message, v.Message2) {
		t.Error("message 2 is another")
	}
	v.testSession(t, session, "r2i", v.KeyR2I, v.KeyI2R)
}

// testSession replays the records at the end that seals those of one direction.
func (v *vector) testSession(t *testing.T, s *Session, sends string, send, receive []byte) {
	if key := s.send.UnsafeKey(); !bytes.Equal(key[:], send) {
		t.Errorf("the key for sending is %x, want %x", key, send)
	}
	if key := s.receive.UnsafeKey(); !bytes.Equal(key[:], receive) {
		t.Errorf("the key for receiving is %x, want %x", key, receive)
	}
	for n, record := range v.Records {
		if record.Direction == sends {
			got, err := s.Seal(nil, record.Plaintext)
			if err != nil || !bytes.Equal(got, record.Ciphertext) {
				t.Errorf("record %d is sealed as %x, %v, want %x", n, got, err, record.Ciphertext)
			}
			continue
		}
		got, err := s.Open(nil, record.Ciphertext)
		if err != nil || !bytes.Equal(got, record.Plaintext) {
			t.Errorf("record %d is opened as %q, %v, want %q", n, got, err, record.Plaintext)
		}
	}
}

func TestKeyDocumentsOfVectors(t *testing.T) {
	for _, v := range readVectors(t).Cases {
		for name, text := range map[string]json.RawMessage{"initiator_static": v.InitiatorJSON, "responder_static": v.ResponderJSON} {
			var key PublicKey
			if err := json.Unmarshal(text, &key); err != nil {
				t.Fatalf("%s: got name %s, error %v; want no error", v.Name, name, err)
			}
			if key != v.public(name) {
				t.Errorf("%s: the key of %s is another", v.Name, name)
			}
			var want bytes.Buffer
			if err := json.Compact(&want, text); err != nil {
				t.Fatal(err)
			}
			if got, err := json.Marshal(key); err != nil || !bytes.Equal(got, want.Bytes()) {
				t.Errorf("%s: the document of %s is %s, %v", v.Name, name, got, err)
			}
		}
	}
}

func TestMustReject(t *testing.T) {
	rejected := 0
	for _, v := range readVectors(t).Cases {
		if len(v.MustReject) == 0 {
			continue
		}
		id := newIdentity(v.pair(t, "responder_static"))
		for _, reject := range v.MustReject {
			message := bytes.Clone(v.Message1)
			if reject.Length > 0 {
				message = message[:reject.Length]
			} else {
				message[reject.FlipAt] ^= reject.Flip
			}
			if _, err := NewResponder(id, v.channel(), message); !errors.Is(err, ErrHandshake) {
				t.Errorf("%s: got reject.Name %s, error %v; want error %v", v.Name, reject.Name, err, ErrHandshake)
			}
			rejected++
		}
	}
	if rejected != 21 {
		t.Errorf("%d messages were tried, want 21", rejected)
	}
}
