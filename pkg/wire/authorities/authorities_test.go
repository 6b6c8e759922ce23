package authorities

import (
	"crypto/x509"
	"os"
	"testing"
)

// TestTrustedCertificates reads files that openssl x509 -trustout has written.
func TestTrustedCertificates(t *testing.T) {
	for name, want := range map[string][2]bool{ // for servers and for clients
		"plain": {true, true}, "server": {true, false}, "client": {false, true}, "rejected": {false, true}, "untold": {true, true},
	} {
		text, err := os.ReadFile("testdata/" + name + ".pem")
		if err != nil {
			t.Fatal(err)
		}
		got := [2]bool{Append(x509.NewCertPool(), text, ServerAuth), Append(x509.NewCertPool(), text, ClientAuth)}
		if got != want {
			t.Errorf("%s: got %v for servers and clients, want %v", name, got, want)
		}
	}
	if Append(x509.NewCertPool(), []byte("-----BEGIN TRUSTED CERTIFICATE-----\nMAA=\n-----END TRUSTED CERTIFICATE-----\n"), ServerAuth) {
		t.Error("an empty certificate was taken")
	}
}
