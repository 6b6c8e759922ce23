// Package authorities reads certificate authorities in PEM. Besides CERTIFICATE it knows the blocks
// TRUSTED CERTIFICATE of OpenSSL, which RHEL's bundles have and package x509 leaves out.
package authorities

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"slices"
)

// The purposes of a certificate.
var (
	ServerAuth = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 1}
	ClientAuth = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 2}
	anyPurpose = asn1.ObjectIdentifier{2, 5, 29, 37, 0}
)

// auxiliary is what OpenSSL appends to a certificate.
type auxiliary struct {
	Trust  []asn1.ObjectIdentifier `asn1:"optional,omitempty"`
	Reject []asn1.ObjectIdentifier `asn1:"optional,tag:0"`
	Alias  string                  `asn1:"optional,utf8"`
	KeyID  []byte                  `asn1:"optional"`
	Other  asn1.RawValue           `asn1:"optional,tag:1"`
}

// Append adds the certificates of a text to a pool, and reports whether there is one. A trusted certificate of OpenSSL
// is added if it is trusted for the purpose.
func Append(pool *x509.CertPool, text []byte, purpose asn1.ObjectIdentifier) bool {
	found := pool.AppendCertsFromPEM(text)
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "TRUSTED CERTIFICATE" {
			continue
		}
		var raw asn1.RawValue
		after, err := asn1.Unmarshal(block.Bytes, &raw)
		if err != nil {
			continue
		}
		certificate, err := x509.ParseCertificate(raw.FullBytes)
		if err == nil && trusted(after, purpose) {
			pool.AddCert(certificate)
			found = true
		}
	}
	return found
}

// trusted reports whether the data behind a certificate permits a purpose.
func trusted(text []byte, purpose asn1.ObjectIdentifier) bool {
	if len(text) == 0 {
		return true
	}
	var aux auxiliary
	if _, err := asn1.Unmarshal(text, &aux); err != nil {
		return false
	}
	has := func(list []asn1.ObjectIdentifier) bool {
		return slices.ContainsFunc(list, func(id asn1.ObjectIdentifier) bool { return id.Equal(purpose) || id.Equal(anyPurpose) })
	}
	return !has(aux.Reject) && (len(aux.Trust) == 0 || has(aux.Trust))
}
