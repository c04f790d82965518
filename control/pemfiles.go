package control

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
)

// writePair signs template and writes key and certificate, the key first, so
// that a crash in between leaves nothing that looks complete.
func writePair(template, parent *x509.Certificate, key, signer crypto.Signer, chain [][]byte, certFile, keyFile string) (*tls.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", certFile, err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", keyFile, err)
	}
	var text bytes.Buffer
	for _, block := range append([][]byte{der}, chain...) {
		if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: block}); err != nil {
			return nil, fmt.Errorf("encode %s: %w", certFile, err)
		}
	}
	if err := writeFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})); err != nil {
		return nil, err
	}
	if err := writeFile(certFile, text.Bytes()); err != nil {
		return nil, err
	}
	return loadPair(certFile, keyFile)
}

// writeFile replaces a file in one step, mode 0600.
func writeFile(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(f.Name()))
		}
	}()
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func loadPair(certFile, keyFile string) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	return &pair, nil
}

// loadOrMakeKey reads a key that a first start left behind when it was
// interrupted before the certificate was written, or makes a new one.
func loadOrMakeKey(path string) (crypto.Signer, error) {
	text, err := os.ReadFile(filepath.Clean(path))
	if errors.Is(err, fs.ErrNotExist) {
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no key (remove it to make a new one)", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w (remove it to make a new one)", path, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s holds a key that cannot sign (remove it to make a new one)", path)
	}
	return signer, nil
}

// firstCertificate reads the first certificate of a PEM text.
func firstCertificate(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("the file holds no PEM certificate")
	}
	return x509.ParseCertificate(block.Bytes)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func serial() *big.Int {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // never fails
	raw[0] &= 0x7f
	return new(big.Int).SetBytes(raw)
}
