package main

import (
	"strings"
	"unicode"
)

// spelled are words that a mere capital at the beginning would misspell.
var spelled = map[string]string{
	"aws": "AWS", "ec2": "EC2", "id": "ID", "ids": "IDs", "arn": "ARN", "arns": "ARNs", "cidrs": "CIDRs", "iam": "IAM",
	"iops": "IOPS", "kms": "KMS", "mysqld": "mysqld Settings", "sha256": "SHA-256", "ssm": "SSM", "url": "URL", "s3": "S3",
	"gtid": "GTID", "tls": "TLS", "ref": "Reference",
}

// title makes a field's name for people: clientSecurityGroupIDs becomes Client Security Group IDs.
func title(name string) string {
	var parts []string
	for _, word := range split(name) {
		right, ok := spelled[strings.ToLower(word)]
		if !ok {
			right = strings.ToUpper(word[:1]) + word[1:]
		}
		parts = append(parts, right)
	}
	return strings.Join(parts, " ")
}

// split cuts a name where a word begins. A run of capitals is one word, with the s of its plural: subnetIDs, kmsKeyID,
// imageSSMParameter.
func split(name string) []string {
	runes := []rune(name)
	var cut []string
	begin := 0
	for i := 1; i < len(runes); i++ {
		if !unicode.IsUpper(runes[i]) {
			continue
		}
		inRun := unicode.IsUpper(runes[i-1])
		ends := i+1 == len(runes) || unicode.IsUpper(runes[i+1]) || plural(runes, i+1)
		if inRun && ends {
			continue
		}
		cut = append(cut, string(runes[begin:i]))
		begin = i
	}
	return append(cut, string(runes[begin:]))
}

// plural says whether what is at i is the s of a plural of capitals: at the end, or before the next word.
func plural(runes []rune, i int) bool {
	return runes[i] == 's' && (i+1 == len(runes) || unicode.IsUpper(runes[i+1]))
}
