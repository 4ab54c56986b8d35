"""Texts for the recorded token ids: every script and every rule of the split pattern that has gone wrong somewhere."""

TEXTS = [
    "Hello world", " leading space", "trailing space ", "two  spaces   three", "a" + " " * 40 + "b", "tab\there\t\tand\t", "line\nbreak\r\nand\n\n\nmore\n",
    "   \n  indented\n\n   ", "don't won't we're I'VE she'll I'd y'all it’s", "'s 't 'S", "#", "##", "### Plan", "###### six", "# # ##tag #1 a#b C# #!",
    "$3.50 costs 5 % of 1,234.50 €", "12345678901234567890", "3/4 14:05 2026-03-05 v2.0.1 +49 30 1234", "١٢٣٤ ४५६ ๑๒๓ １２３ ½ ² Ⅷ",
    "**bold** `code` ```fence``` ~~~ --- ... !!! ?!", "https://example.org/a?b=c&d=e#f me@example.org", "ALL CAPS camelCase snake_case kebab-case",
    "The quick brown fox jumps over the lazy dog.", "Schöne Grüße aus Köln, heißt es. ÄÖÜ ß ẞ", "El veloz murciélago hindú. ¿Qué? ¡Olé!", "déjà vu, œuvre, naïve, français",
    "Olá, você não está só. ãõç", "È già così. Perché? Più!", "Съешь же ещё этих мягких французских булок, да выпей чаю.", "Їжак, ґанок, є", "Ελληνικά κείμενο με τόνους",
    "我叫通义千问，是阿里云的开源大模型。", "繁體中文測試：臺灣、漢字。", "粵語：佢哋喺邊度呀？", "いろはにほへと散りぬるを。カタカナ、ひらがな、漢字。", "東京タワーは３３３メートルです。ｶﾀｶﾅ", "안녕하세요 세계. 한국어 문장입니다.",
    "ภาษาไทยไม่มีช่องว่าง สวัสดีชาวโลก", "مرحبا بالعالم، كيف الحال؟ ١٢٣", "שלום עולם, מה שלומך?", "नमस्ते दुनिया, कैसे हो?", "বাংলা ভাষা", "தமிழ் மொழி", "ქართული ენა", "Հայերեն", "አማርኛ", "ខ្មែរ", "မြန်မာ", "Tiếng Việt có dấu thanh",
    "cafe\u0301 e\u0301\u0302 a\u030a \u1100\u1161\u11a8 \ufb01ne", "👩‍👩‍👧‍👦 🙂 🏳️‍🌈 👍🏽 ☎️", "a\u00a0b\u00a0\u00a0c \u2003em \u3000ideographic", "zero\u200bwidth \u200djoiner \ufeffbom soft\u00adhyphen",
    "“quotes” ‘single’ «guillemets» – — … •", "math: ∑ x² ≤ ∞ ± √2 → ⇒ ≠", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈 𠜎", "control\x01\x7fchars", "<|im_start|>user", "say <|im_end|> now", "<tts_pad><tts_text_eod> x <|endoftext|>", "<think> </think>",
    "A", ".", "é", "你", "🙂", "\n", " ", "  ", "\t", "Mixed 中文 and English और हिन्दी 123", "Dr. Lee paid $3.50.", "assistant", "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nSpeak slowly.<|im_end|>\n",
]  # fmt: skip
