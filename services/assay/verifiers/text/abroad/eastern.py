"""Phrases of languages of Eastern Europe and Asia that take back what was said.

See `assay.verifiers.text.abroad.tongue`.
"""

from typing import Final

from assay.verifiers.text.abroad.tongue import Tongue

POLISH: Final = Tongue(
    hints="błęd|błąd|źle|popraw|prawid|zigno|czekaj|pomyl|mylił|zaraz|chwil|korekta",
    waits=("(za)?czekaj(cie)?", "zaraz", "chwil(a|eczkę|kę)", "moment"),
    corrects="korekta",
    leads=(
        "nie",
        "och?",
        "ach",
        "hm+",
        "ups",
        "ale",
        "przepraszam",
        "właściwie",
        "niestety",
        "(myślę|widzę),? że",
    ),
    very="jednak|całkowicie|chyba|też",
    thing=(
        (
            "(mo[ja]{1,2}|mój|t[ao]|ten|tę|powyższ[yaeą]|poprzedni[aeą]?) ((powyższ[yaeą]|"
            "poprzedni[aeą]?) )?{noun}( powyżej)?"
        ),
        "{noun} powyżej",
    ),
    nouns={
        "odpowied": "answer",
        "rozwiązani": "solution",
        "wynik": "answer",
        "obliczeni": "answer",
        "program": "program",
        "kod": "code",
        "funkcj": "function",
        "zapytani": "query",
        "wersj": "version",
    },
    wrong=(
        "to (jest |było )?{very}(błędne|źle|niepoprawne|nieprawidłowe|błąd|nieprawda)",
        "to (nie jest (poprawne|prawidłowe)|się nie zgadza|nie może być)",
    ),
    named=("{thing} (jest|był[ao]?) {very}(błędn[yae]|niepoprawn[yae]|nieprawidłow[yae]|zł[yae])",),
    drops=("(proszę )?(zignoruj(cie)?|zignorować|pomiń) (to|powyższe)",),
    drops_named=("(proszę )?(zignoruj(cie)?|zignorować|pomiń) {thing}",),
    erred=("(po)?mylił[ea]m się", "popełnił[ea]m (\\w{1,12} )?błąd", "mój błąd"),
    again=(
        (
            "(sprawdzę|sprawdźmy|policzę|policzmy|spróbuję|przeliczę)( (to|jeszcze|raz|ponownie|"
            "od|nowa)){0,5}"
        ),
    ),
    right=("(to|{thing}|{noun}) (jest )?(jednak )?(poprawn[yae]|prawidłow[yae]|dobrze)",),
    answers=("((prawidłowa|poprawna|ostateczna|moja) )?odpowiedź (to|jest|brzmi)",),
    unless="jeśli|jeżeli|gdy|chyba że|tylko|dla|o ile",
    denies="nie",
)
RUSSIAN: Final = Tongue(
    hints=(
        "невер|неправил|ошиб|игнор|подожд|погод|стоп|постой|не так|верно|правильно|забудь|"
        "поправка|исправление"
    ),
    waits=("подожди(те)?", "погоди(те)?", "стоп", "постой(те)?", "минут(к|очк)у"),
    corrects="исправление|поправка",
    leads=(
        "нет",
        "ой",
        "ах",
        "ох",
        "хм+",
        "упс",
        "но",
        "извини(те)?",
        "прости(те)?",
        "на самом деле",
        "к сожалению",
        "(я )?(думаю|вижу|понимаю|кажется),? что",
    ),
    very="всё-таки|совсем|явно|тоже|было|полностью",
    thing=(
        (
            "(мой|моя|моё|мое|мою|этот|эта|это|эту|предыдущ(ий|ая|ее|ую)|приведённ(ый|ая|"
            "ую) выше|данн(ый|ая)) (предыдущ(ий|ая|ее|ую) )?{noun}( выше)?"
        ),
        "{noun},? (выше|приведённ(ый|ая|ую) выше)",
    ),
    nouns={
        "ответ": "answer",
        "решени": "solution",
        "результат": "answer",
        "вычислени": "answer",
        "программ": "program",
        "код": "code",
        "функци": "function",
        "запрос": "query",
        "верси": "version",
        "блок": "block",
    },
    wrong=(
        "(это|так) {very}(неверно|неправильно|ошибка|не так|не верно|не правильно)",
        "это {very}не (может быть|подходит|работает)",
    ),
    named=(
        ("{thing} {very}(неверн(о|ый|ая|ое)|неправильн(о|ый|ая|ое)|ошибочн(о|ый|ая|ое)|не верен)"),
    ),
    drops=(
        ("(пожалуйста,? )?((про)?игнорируй(те)?|забудь(те)?) (это|вышесказанное|написанное выше)"),
    ),
    drops_named=("(пожалуйста,? )?((про)?игнорируй(те)?|забудь(те)?) {thing}",),
    erred=(
        "я (ошибся|ошиблась|был неправ|была неправа)",
        "я (допустил|допустила|сделал|сделала) (\\w{1,12} )?ошибку",
        "моя ошибка",
    ),
    again=(
        (
            "(давай(те)?|я|нужно|надо|попробую|пересчитаю|проверю)( (проверю|пересчитаю|"
            "пересчитаем|проверим|посчитаем|посчитаю|попробую|ещё|еще|раз|снова|заново|это|всё|"
            "все|сначала)){0,6}"
        ),
    ),
    right=(
        (
            "(это|{thing}|{noun}) (всё-таки |всё же |действительно )?(верно|правильно|верен|"
            "верна|правильн(ый|ая)|работает)"
        ),
    ),
    answers=("((правильный|верный|окончательный|мой) )?ответ( —| –| -| это)",),
    unless="если|когда|только|при|для|кроме",
    short=("(не ?верно|не ?правильно|ошибка|не так)",),
    denies="не",
)
TURKISH: Final = Tongue(
    hints="yanlış|hata|bekle|dur|görmezden|dikkate|yanıld|düzeltme|doğru",
    waits=("bekle(yin)?", "dur(un)?", "bir (dakika|saniye)"),
    corrects="düzeltme",
    leads=("hayır", "ah", "oh", "hm+", "ama", "üzgünüm", "pardon", "aslında", "özür dilerim"),
    very="tamamen|açıkça|sanırım",
    thing=("(yukarıdaki|önceki|bu|son) {noun}",),
    nouns={
        "cevab": "answer",
        "cevap": "answer",
        "yanıt": "answer",
        "çözüm": "solution",
        "sonuç": "answer",
        "sonucu": "answer",
        "kod": "code",
        "program": "program",
        "fonksiyon": "function",
        "sorgu": "query",
        "sürüm": "version",
    },
    wrong=(
        "bu {very}(yanlış|hatalı)(dır|tır|tı|ydı)?",
        "bu {very}doğru değil",
        "bu {very}bir hata",
    ),
    named=("{thing} {very}(yanlış|hatalı|doğru değil)(dır|tır)?",),
    drops=(
        (
            "(lütfen )?(bunu|yukarıdakini|yukarıyı) (görmezden gel(in)?|dikkate alma(yın)?|"
            "yok say(ın)?)"
        ),
    ),
    drops_named=("(lütfen )?{thing} (görmezden gel(in)?|dikkate alma(yın)?|yok say(ın)?)",),
    erred=("(bir )?hata yaptım", "yanıldım"),
    again=(
        (
            "(tekrar|yeniden)( (hesaplayayım|hesaplayalım|kontrol|edeyim|edelim|deneyeyim|"
            "bakayım|düşüneyim)){1,3}"
        ),
    ),
    right=("(bu|{thing}) {very}doğru(?! ?değil)",),
    answers=(),
    unless="eğer|ise|sadece|yalnızca",
    short=("(yanlış|hatalı)",),
)
INDONESIAN: Final = Tongue(
    hints="salah|keliru|tunggu|abaikan|kesalahan|koreksi|benar",
    waits=("tunggu( sebentar| dulu)?", "sebentar"),
    corrects="koreksi",
    leads=("tidak", "bukan", "oh", "ah", "hm+", "ups", "tapi", "maaf", "sebenarnya", "ternyata"),
    very="jelas|ternyata|juga|masih",
    thing=("{noun} (saya |di |yang )?(di atas|ini|tadi|sebelumnya|saya)", "{noun} saya( di atas)?"),
    nouns={
        "jawaban": "answer",
        "solusi": "solution",
        "hasil": "answer",
        "perhitungan": "answer",
        "kode": "code",
        "program": "program",
        "fungsi": "function",
        "kueri": "query",
        "versi": "version",
    },
    wrong=("(itu|ini) {very}(salah|keliru|tidak benar|tidak tepat)",),
    named=("{thing} {very}(salah|keliru|tidak benar|tidak tepat)",),
    drops=("(mohon |tolong |silakan )?abaikan (itu|ini|yang di atas)",),
    drops_named=("(mohon |tolong |silakan )?abaikan {thing}",),
    erred=("saya (telah )?(membuat kesalahan|salah|keliru)",),
    again=(
        (
            "(mari|biar|saya|coba)( (kita|saya|akan|periksa|hitung|coba|cek|ulang|lagi|"
            "kembali)){1,5}"
        ),
    ),
    right=("(itu|ini|{thing}) {very}(benar|betul)",),
    answers=("jawaban(nya)?( yang benar| akhir(nya)?)? adalah",),
    unless="jika|kalau|kecuali|hanya|untuk|apabila",
    denies="bukan|tidak",
)
VIETNAMESE: Final = Tongue(
    hints="sai|nhầm|khoan|đợi|chờ|bỏ qua|không đúng|đính chính|đúng",
    waits=("khoan( đã)?", "đợi( đã| chút)?", "chờ( đã| chút)?"),
    corrects="đính chính",
    leads=("không", "ồ", "à", "ôi", "nhưng", "xin lỗi", "thực ra", "tôi (nghĩ|thấy)( rằng)?"),
    very="cũng|hoàn toàn|rõ ràng|bị|là",
    thing=("{noun} (ở )?(trên|này|trước|vừa rồi|của tôi)",),
    nouns={
        "đáp án": "answer",
        "câu trả lời": "answer",
        "kết quả": "answer",
        "lời giải": "solution",
        "mã": "code",
        "chương trình": "program",
        "hàm": "function",
        "truy vấn": "query",
        "phiên bản": "version",
    },
    wrong=("(điều (này|đó)|cái (này|đó)|như vậy|thế) {very}(sai|không đúng|nhầm)( rồi)?",),
    named=("{thing} {very}(sai|không đúng|nhầm)( rồi)?",),
    drops=("(hãy |xin |vui lòng )?bỏ qua (điều (này|đó)|phần trên|những gì ở trên)",),
    drops_named=("(hãy |xin |vui lòng )?bỏ qua {thing}",),
    erred=("tôi (đã )?(nhầm|mắc (một )?(sai lầm|lỗi)|sai)( rồi)?",),
    again=("(để tôi|hãy|tôi sẽ|tôi cần)( (tính|kiểm tra|xem|thử|làm|suy nghĩ|lại)){1,5}",),
    right=("(điều (này|đó)|{thing}) {very}(vẫn )?(đúng|chính xác)",),
    answers=("(đáp án|câu trả lời)( đúng| cuối cùng)? là",),
    unless="nếu|khi|chỉ|trừ",
    short=("sai rồi", "không đúng( rồi)?"),
    denies="không",
)
CHINESE: Final = Tongue(
    hints="错|錯|不对|不對|不正确|不正確|等等|等一下|稍等|忽略|更正|搞错|算错|不成立|无视|作废",
    waits=("等等", "等一下", "等一等", "稍等(一下)?", "慢着"),
    corrects="更正|修正",
    leads=(
        "不",
        "哦",
        "啊",
        "呃",
        "嗯",
        "哎呀",
        "糟糕",
        "但是?",
        "可是",
        "抱歉",
        "对不起",
        "不好意思",
        "其实",
        "实际上",
        "我(发现|觉得|认为|想)",
        "不对",
        "看来",
    ),
    very="显然|明显|其实|好像|也|都|还|完全",
    thing=(
        "(我的|我|这个|这段|该|此|上面|上述|以上|上边|前面|之前|刚才)的?(这个|这段|那个|那段)?{noun}",
    ),
    nouns={
        "答案": "answer",
        "结果": "answer",
        "結果": "answer",
        "计算": "answer",
        "解答": "solution",
        "解法": "solution",
        "代码": "code",
        "程式碼": "code",
        "程序": "program",
        "函数": "function",
        "查询": "query",
        "版本": "version",
    },
    wrong=(
        "(这|这个|那|那个|它|這|這個|这样){very}(是|就是)?(错的?|错误的?|錯的?|錯誤的?|不对的?|不對的?|不正确的?|不正確的?|有误|不成立)",
        "(搞|算|弄|写)错",
    ),
    named=(
        "{thing}{very}(是|有)?(错的?|错误的?|錯的?|錯誤的?|不对的?|不對的?|不正确的?|不正確的?|误|问题)",
    ),
    drops=("(请|請)?(忽略|无视)(它|这个|那个|上面的?(内容)?|上述(内容)?|以上(内容)?)",),
    drops_named=("(请|請)?(忽略|无视){thing}",),
    erred=("我(刚才)?(搞错|算错|弄错|写错|犯了(一个|个)?错误?|出错|错)",),
    again=(
        "(让我|我|我们|讓我)(来|再|需要|要|想|先)?(重新|再)(仔细)?(计算|检查|算|看|想|考虑|来|试|做|验证|推导|計算|檢查)?(一下|一遍|一次)?",
    ),
    right=("(这|这个|它|{thing})?(是|确实是|还是|仍然是)(正确的|对的|正確的)",),
    answers=(),
    unless="仅当|如果",
    short=("(错了?|錯了?|不对|不對|不正确|有误)",),
    ends="了?[吧啊呢]?(?=[\\s。，！；：,.!;:…)*—]|$)",
)
JAPANESE: Final = Tongue(
    hints="間違|違|誤|無視|待って|訂正|正しく|ミス",
    waits=("(ちょっと)?待って(ください)?", "少々お待ちください", "おっと"),
    corrects="訂正",
    leads=(
        "いや",
        "いえ",
        "いいえ",
        "ああ",
        "あ",
        "うーん",
        "えっと",
        "しかし",
        "でも",
        "すみません",
        "ごめんなさい",
        "失礼しました",
        "実は",
        "実際には",
        "よく(見る|考える)と",
    ),
    very="明らかに|実は|やはり|少し",
    thing=("(この|その|私の|上の|上記の|先ほどの|前の|以前の){noun}",),
    nouns={
        "答え": "answer",
        "解答": "answer",
        "回答": "answer",
        "結果": "answer",
        "計算": "answer",
        "コード": "code",
        "プログラム": "program",
        "関数": "function",
        "クエリ": "query",
        "バージョン": "version",
        "解法": "solution",
    },
    wrong=(
        (
            "(これ|それ)(は|が){very}(間違い(です|でした|だ)?|間違って(います|いました|いる|ました)|誤り(です|でした|だ)?|誤って(います|"
            "いる)|違います|違う|正しくありません|正しくない(です)?)"
        ),
    ),
    named=(
        (
            "{thing}(は|が){very}(間違い(です|でした|だ)?|間違って(います|いました|いる)|誤り(です|でした|だ)?|誤って(います|いる)|"
            "正しくありません|正しくない(です)?)"
        ),
    ),
    drops=("(これ|それ|上記|上)(は|を)?無視して(ください)?",),
    drops_named=("{thing}(は|を)?無視して(ください)?",),
    erred=(
        "(私が)?(間違えました|間違えた|間違えていました|計算ミスをしました|ミスをしました|誤りました)",
    ),
    again=(
        "もう一度(計算|確認|検討|考え|やり直)[しえ]?(ます|てみます|直します|ましょう|てみましょう|させてください)?",
        "(計算|確認)し直します",
        "やり直します",
    ),
    right=("((これ|それ)(は|が)|{thing}(は|が))?(やはり)?(正しい(です)?|合って(います|いる))",),
    answers=(),
    unless="場合",
    short=("(間違い|間違って|誤り|違い)(です|でした|だ|ます|います|いました)?", "違う"),
    ends="[ねよ]?(?=[\\s。，、！；：,.!;:…)*—]|$)",
)
KOREAN: Final = Tongue(
    hints="틀렸|틀리|틀린|잘못|오류|무시|잠깐|잠시|정정|실수|아니|맞지",
    waits=("잠깐(만|만요)?", "잠시만(요)?", "기다려( ?주세요)?"),
    corrects="정정",
    leads=(
        "아니(요|오)?",
        "아",
        "오",
        "음+",
        "흠+",
        "어",
        "하지만",
        "그런데",
        "죄송합니다",
        "미안합니다",
        "사실(은)?",
    ),
    very="확실히|완전히|사실",
    thing=("(위의|위|이|제|나의|앞의|이전) ?{noun}",),
    nouns={
        "답": "answer",
        "정답": "answer",
        "결과": "answer",
        "계산": "answer",
        "풀이": "solution",
        "코드": "code",
        "프로그램": "program",
        "함수": "function",
        "쿼리": "query",
        "버전": "version",
    },
    wrong=(
        (
            "(이것|그것|이건|그건|이게|그게|이|저것)(은|는|이)? "
            "{very}(틀렸(습니다|어요|다|네요)|"
            "틀린 (것입니다|거예요)|잘못(됐|되었)(습니다|어요|다|네요)|오류입니다|"
            "잘못입니다|맞지 않(습니다|아요|다)|"
            "정확하지 않(습니다|아요))"
        ),
    ),
    named=(
        "{thing}(은|는|이|가)? {very}(틀렸|잘못(됐|되었))(습니다|어요|다|네요)",
        "{thing}(은|는|이|가)? {very}맞지 않(습니다|아요|다)",
    ),
    drops=("(이것|그것|이건|위 내용)(은|는|을)? ?무시(하세요|해 ?주세요|하십시오|해주십시오)",),
    drops_named=("{thing}(은|는|을|를)? ?무시(하세요|해 ?주세요|하십시오|해주십시오)",),
    erred=("(제가 )?(실수(했습니다|했어요|를 했습니다)|틀렸습니다|잘못 (계산|생각)했습니다)",),
    again=(
        "다시 (한번 |한 번 )?(계산|확인|생각)(해 ?보겠습니다|하겠습니다)",
        "다시 (한번 |한 번 )?(계산|확인|생각)해 ?(볼게요|봅시다)",
    ),
    right=(
        "((이것|그것|이건|그건|{thing})(은|는|이|가)? )?(맞습니다|정확합니다|올바릅니다|맞아요)",
    ),
    answers=(),
    unless="경우",
    short=("(틀렸|잘못(됐|되었))(습니다|어요|다|네요)", "(오류|잘못)입니다", "맞지 않습니다"),
    ends="(?=[\\s。，！；：,.!;:…)*—]|$)",
)
