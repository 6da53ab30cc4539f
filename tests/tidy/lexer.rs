//! As much of Rust's lexical structure as the checks need: what is code, comment or literal.

use std::iter::Peekable;
use std::str::Chars;

/// Source with comments and the insides of string and character literals blanked out; lines and
/// columns stay where they are.
pub(crate) fn code_only(source: &str) -> String {
    let mut lexer = Lexer { rest: source.chars().peekable(), out: String::new(), before: ' ' };
    while let Some(character) = lexer.take() {
        match character {
            '/' if lexer.next_is('/') => lexer.line_comment(),
            '/' if lexer.next_is('*') => lexer.block_comment(),
            '"' => lexer.string(),
            'r' if !is_word(lexer.before) || lexer.before == 'b' => lexer.raw_string(),
            '\'' => lexer.character_or_lifetime(),
            _ => lexer.out.push(character),
        }
        lexer.before = character;
    }
    lexer.out
}

/// Identifiers and keywords of a line of code.
pub(crate) fn tokens(line: &str) -> impl Iterator<Item = &str> {
    line.split(|character: char| !is_word(character)).filter(|token| !token.is_empty())
}

/// True for what identifiers are made of.
pub(crate) fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

struct Lexer<'a> {
    rest: Peekable<Chars<'a>>,
    out: String,
    before: char,
}

impl Lexer<'_> {
    fn take(&mut self) -> Option<char> {
        self.rest.next()
    }

    fn next_is(&mut self, character: char) -> bool {
        self.rest.peek() == Some(&character)
    }

    /// Writes what stands for `character` inside a comment or literal.
    fn blank(&mut self, character: char) {
        self.out.push(if character == '\n' { '\n' } else { ' ' });
    }

    fn line_comment(&mut self) {
        self.blank('/');
        while let Some(character) = self.rest.next_if(|next| *next != '\n') {
            self.blank(character);
        }
    }

    fn block_comment(&mut self) {
        self.blank('/');
        let (mut depth, mut last) = (0_u32, '/');
        while let Some(character) = self.take() {
            self.blank(character);
            match (last, character) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    last = character;
                    continue;
                }
            }
            if depth == 0 {
                return;
            }
            last = ' ';
        }
    }

    fn string(&mut self) {
        self.out.push('"');
        while let Some(character) = self.take() {
            match character {
                '"' => return self.out.push('"'),
                '\\' => {
                    self.blank(character);
                    let escaped = self.take();
                    escaped.into_iter().for_each(|escaped| self.blank(escaped));
                }
                _ => self.blank(character),
            }
        }
    }

    /// After an `r`: a raw string, a raw identifier or just a letter.
    fn raw_string(&mut self) {
        self.out.push('r');
        let mut ahead = self.rest.clone();
        let mut hashes = 0;
        while ahead.next_if_eq(&'#').is_some() {
            hashes += 1;
        }
        if ahead.next() != Some('"') {
            return;
        }
        for _ in 0..=hashes {
            let opening = self.take();
            opening.into_iter().for_each(|opening| self.out.push(opening));
        }
        let mut closing = None;
        while let Some(character) = self.take() {
            self.blank(character);
            closing = match (character, closing) {
                ('"', _) => Some(0),
                ('#', Some(count)) => Some(count + 1),
                _ => None,
            };
            if closing == Some(hashes) {
                return;
            }
        }
    }

    fn character_or_lifetime(&mut self) {
        self.out.push('\'');
        let mut ahead = self.rest.clone();
        let first = ahead.next();
        let is_character = first == Some('\\') || ahead.next() == Some('\'');
        if !is_character {
            return;
        }
        let mut escaped = false;
        while let Some(character) = self.take() {
            if character == '\'' && !escaped {
                return self.out.push('\'');
            }
            escaped = character == '\\' && !escaped;
            self.blank(character);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        let source =
            "let a = \"unsafe \\\" x\"; // unsafe\nlet b = 'u'; /* a /* b */ c */ let c = '\\'';";
        let code = code_only(source);
        assert!(!code.contains("unsafe") && !code.contains('u'), "{code}");
        assert_eq!(code.lines().count(), 2);
        assert!(code.ends_with("let c = '  ';"), "{code}");
    }

    #[test]
    fn raw_strings_end_where_they_should() {
        let code = code_only("f(r#\"un\"safe\"#, br\"unsafe\", r#type); unsafe {}");
        assert_eq!(tokens(&code).filter(|token| *token == "unsafe").count(), 1, "{code}");
        assert!(code.contains("r#type"), "{code}");
    }

    #[test]
    fn lifetimes_are_no_literals() {
        let code = code_only("fn f<'a>(x: &'a str) -> &'a str { unsafe { g(x) } }");
        assert!(tokens(&code).any(|token| token == "unsafe"), "{code}");
    }
}
