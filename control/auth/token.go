package auth

import (
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Role says what the holder of a credential may do.
type Role string

// The roles. Other words in a token give no rights.
const (
	RoleAdmin Role = "admin" // everything
	RoleUser  Role = "user"  // read
)

const (
	leeway = 30 * time.Second
	// MaxTTL is the longest life of a token made here.
	MaxTTL = 366 * 24 * time.Hour
)

// Identity is who made a request.
type Identity struct {
	Username string
	Role     Role
	Email    string
	Method   string    // internal_key or jwt
	Expires  time.Time // zero for the internal key
}

// Tokens makes and checks JWTs with one secret.
type Tokens struct {
	secret []byte
	parser *jwt.Parser
	now    func() time.Time
}

// NewTokens returns Tokens for a secret of at least MinSecret bytes.
func NewTokens(secret []byte) (*Tokens, error) {
	if len(secret) < MinSecret {
		return nil, fmt.Errorf("the JWT secret has %d bytes, at least %d are needed", len(secret), MinSecret)
	}
	t := &Tokens{secret: secret, now: time.Now}
	t.parser = jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
		jwt.WithExpirationRequired(),
		jwt.WithLeeway(leeway),
		jwt.WithTimeFunc(func() time.Time { return t.now() }),
	)
	return t, nil
}

// claims are those of the tokens that existing clients hold.
type claims struct {
	Username string `json:"username"`
	Role     Role   `json:"role"`
	Email    string `json:"email"`
	jwt.RegisteredClaims
}

// Mint returns a signed token. Role is admin or user, ttl between one second
// and MaxTTL; an empty username becomes the role's name.
func (t *Tokens) Mint(role Role, ttl time.Duration, username string) (string, error) {
	if role != RoleAdmin && role != RoleUser {
		return "", fmt.Errorf("make token: role must be admin or user, got %q", role)
	}
	if ttl < time.Second || ttl > MaxTTL {
		return "", fmt.Errorf("make token: the lifetime must be between 1s and %v, got %v", MaxTTL, ttl)
	}
	if username == "" {
		username = string(role)
	}
	now := t.now()
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims{
		Username: username,
		Role:     role,
		RegisteredClaims: jwt.RegisteredClaims{
			IssuedAt:  jwt.NewNumericDate(now),
			ExpiresAt: jwt.NewNumericDate(now.Add(ttl)),
		},
	}).SignedString(t.secret)
	if err != nil {
		return "", fmt.Errorf("make token: %w", err)
	}
	return token, nil
}

// Verify checks signature, algorithm and time of a token. The role may be
// empty or unknown: what it allows is for the caller to say.
func (t *Tokens) Verify(token string) (Identity, error) {
	var c claims
	if _, err := t.parser.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return t.secret, nil }); err != nil {
		return Identity{}, err
	}
	if c.Username == "" {
		return Identity{}, errNoUsername
	}
	return Identity{Username: c.Username, Role: c.Role, Email: c.Email, Method: "jwt", Expires: c.ExpiresAt.Time}, nil
}

var errNoUsername = errors.New("the token names no user")

// reason is a word for the log; the library's errors can quote the token.
func reason(err error) string {
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return "expired"
	case errors.Is(err, jwt.ErrTokenNotValidYet):
		return "not_valid_yet"
	case errors.Is(err, jwt.ErrTokenUnverifiable), errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return "bad_signature"
	case errors.Is(err, jwt.ErrTokenRequiredClaimMissing), errors.Is(err, errNoUsername):
		return "missing_claim"
	case errors.Is(err, jwt.ErrTokenMalformed):
		return "malformed"
	}
	return "invalid"
}
