use proptest::prelude::*;

use super::*;

#[test]
fn faults_are_read() {
    let fault = |text: &str| text.parse::<Fault>().map(|f| (f.nr, f.errno, f.when)).map_err(|e| e.to_string());
    assert_eq!(fault("brk:ENOMEM"), Ok((12, 12, When::Rate)));
    assert_eq!(fault("mseal:EPERM@3"), Ok((462, 1, When::At(3))));
    assert_eq!(fault("mremap:EFAULT@3+"), Ok((25, 14, When::From(3))));
    assert_eq!(fault("mmap:EHWPOISON"), Ok((9, 133, When::Rate)));
    assert_eq!(fault("mlock:EWOULDBLOCK"), Ok((149, 11, When::Rate)));
    for (text, part) in [
        ("", "give a call and an error"),
        ("mmap", "give a call and an error"),
        ("read:EIO", "\"read\" is not a call"),
        (":ENOMEM", "\"\" is not a call"),
        ("mmap:", " is not the name of an error"),
        ("mmap:enomem", "enomem is not the name of an error"),
        ("mmap:UnknownErrno", "is not the name of an error"),
        ("mmap:12", "12 is not the name of an error"),
        ("mmap:ENOMEM@", "\"\" does not say which"),
        ("mmap:ENOMEM@0", "\"0\" does not say which"),
        ("mmap:ENOMEM@-1", "\"-1\" does not say which"),
        ("mmap:ENOMEM@3-", "\"3-\" does not say which"),
        ("mmap:ENOMEM@99999999999999999999", "does not say which"),
        ("mmap:ENOMEM@1@2", "does not say which"),
    ] {
        let said = fault(text).unwrap_err();
        assert!(said.contains(part), "{text}: {said}");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_fault_or_a_message(text in "\\PC*|(mmap|brk|x)?:?(ENOMEM|E)?@?[0-9]*\\+?") {
        if let Err(why) = text.parse::<Fault>() {
            prop_assert!(!why.to_string().is_empty());
        }
        let _ = text.parse::<Policy>();
    }
}
