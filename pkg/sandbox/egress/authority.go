package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"sync"
	"time"
)

// certAuthority is the certificate authority of one process's proxy. Its keys are only in memory.
// Its own certificate restricts it to the hosts of the injections (RFC 5280, section 4.2.1.10), so
// a process that obtained the key could not impersonate another host. Its methods may be called
// from any goroutine.
type certAuthority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// leafKey is the key of all certificates that the proxy presents to the process.
	leafKey *ecdsa.PrivateKey

	mu sync.Mutex
	// leaves holds the newest certificate of each host. It has at most one per injection.
	leaves map[string]*tls.Certificate
}

// newAuthority makes an authority for some hosts.
func newAuthority(hosts []string) (*certAuthority, error) {
	a := &certAuthority{leaves: make(map[string]*tls.Certificate)}
	var err, leafErr error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.leafKey, leafErr = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err = errors.Join(err, leafErr); err != nil {
		return nil, fmt.Errorf("make the keys of a certificate authority: %w", err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "Codex network proxy of one process"}, NotBefore: time.Now().Add(-clockSkew),
		NotAfter: time.Now().Add(authorityTime), KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	constrain(template, hosts)
	a.cert, err = sign(template, template, &a.key.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate authority: %w", err)
	}
	return a, nil
}

// constrain restricts an authority to hosts. If a certificate has no list of permitted names of
// some kind, names of that kind are unrestricted. Therefore the list of DNS names is never empty:
// if no host is a name, the list contains a name that cannot exist (RFC 6761, section 6.4).
func constrain(template *x509.Certificate, hosts []string) {
	template.PermittedDNSDomainsCritical = true
	for _, host := range hosts {
		if address, err := netip.ParseAddr(host); err == nil {
			bits := address.BitLen()
			template.PermittedIPRanges = append(template.PermittedIPRanges, &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(bits, bits)})
		} else {
			template.PermittedDNSDomains = append(template.PermittedDNSDomains, host)
		}
	}
	if len(template.PermittedDNSDomains) == 0 {
		template.PermittedDNSDomains = []string{"invalid"}
	}
	if len(template.PermittedIPRanges) == 0 {
		template.ExcludedIPRanges = []*net.IPNet{
			{IP: make(net.IP, net.IPv4len), Mask: make(net.IPMask, net.IPv4len)}, {IP: make(net.IP, net.IPv6len), Mask: make(net.IPMask, net.IPv6len)},
		}
	}
}

// sign makes a certificate with a random serial number.
func sign(template, parent *x509.Certificate, public *ecdsa.PublicKey, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// leafName is the subject of all certificates for hosts. They have no common name:
// OpenSSL and GnuTLS would check the common name of a certificate for an address against the
// names that the authority may sign for, and refuse it.
const leafName = "Codex network proxy"

// leaf returns a certificate for a host. It is valid for leafTime and replaced
// after half of that.
func (a *certAuthority) leaf(host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.leaves[host]; c != nil && time.Until(c.Leaf.NotAfter) > leafTime/2 {
		return c, nil
	}
	template := &x509.Certificate{
		Subject: pkix.Name{Organization: []string{leafName}}, NotBefore: time.Now().Add(-clockSkew), NotAfter: time.Now().Add(leafTime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	if address, err := netip.ParseAddr(host); err == nil {
		template.IPAddresses = []net.IP{address.AsSlice()}
	} else {
		template.DNSNames = []string{host}
	}
	cert, err := sign(template, a.cert, &a.leafKey.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for %s: %w", host, err)
	}
	c := &tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: a.leafKey, Leaf: cert}
	a.leaves[host] = c
	return c, nil
}

// pem returns the authority's certificate.
func (a *certAuthority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// errOtherName is the error of a TLS handshake that names a different host from that of the tunnel.
// crypto/tls then sends an alert.
var errOtherName = errors.New("the TLS handshake names another host than the tunnel")

// server returns the TLS configuration with which the proxy answers in place of a host.
func (a *certAuthority) server(host string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if name, ok := normalHost(hello.ServerName); hello.ServerName != "" && (!ok || name != host) {
				return nil, errOtherName
			}
			return a.leaf(host)
		},
	}
}
