package execproto

import (
	"codex.internal/pkg/wire/b64"
	"codex.internal/pkg/wire/jsonwire"
)

// Object is a pointer to a type of this package. Its method Fields lists the members
// of the JSON object, for the functions below.
type Object = jsonwire.Struct

// Pointer is *T, for a T whose pointer is an Object.
type Pointer[T any] interface {
	*T
	Object
}

// The rules of members; see jsonwire.Rule.
const (
	need   = jsonwire.Need
	orNull = jsonwire.OrNull
	omit   = jsonwire.Omit
)

// base64Field is a line of Fields: a base64 text that a reader decodes in place. The launcher reads JSON by package
// jsonwire too, and must not link b64, which has assembly.
func base64Field(c *jsonwire.Codec, name string, rule jsonwire.Rule, to *[]byte) {
	c.Encoded(name, rule, to, b64.AppendString, b64.DecodeInPlace)
}

// Decode decodes an object, which must be valid JSON: the params of a request or
// of a notification. A nil src means that the params are absent, which is the same
// as null. Errors in params are sent to the client with code CodeInvalidParams.
// Byte slices in the result alias src, in which base64 members are decoded in
// place: src must not be changed while the result is used, and is no longer JSON.
func Decode[T any, P Pointer[T]](src []byte) (T, error) {
	var v T
	err := DecodeTo(src, P(&v))
	return v, err
}

// DecodeTo is Decode into an existing value, whose members that src does not have
// keep their values.
func DecodeTo(src []byte, to Object) error {
	if src == nil {
		src = []byte("null")
	}
	r := jsonwire.NewCheckedReader(src)
	if err := r.Struct("an object", to); err != nil {
		return err
	}
	return r.End()
}

// Append appends the JSON text of an object. The error means that a raw member
// is not JSON, such as a sandbox that a user of the client has written.
func Append(b []byte, o Object) ([]byte, error) { return jsonwire.AppendStruct(b, o) }

// appendObject is Append for types that have no raw members, or whose raw members are known to
// be JSON.
func appendObject(b []byte, o Object) []byte {
	b, _ = Append(b, o)
	return b
}
