package api

import (
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

// signClaims makes a token that our own Mint would refuse to make.
func signClaims(t *testing.T, c map[string]any) string {
	t.Helper()
	s, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims(c)).SignedString([]byte(testKey + "-jwt"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}
