"""Sentences of everyday language, three in each of the languages that IFEval asks for."""

from collections.abc import Mapping, Sequence
from typing import Final

SENTENCES: Final[Mapping[str, Sequence[str]]] = {
    "ar": (
        "ذهبت إلى السوق مع أخي هذا الصباح.",
        "هل تعرف أين يقع المتحف؟",
        "الطعام في هذا المطعم لذيذ جدا.",
    ),
    "bg": (
        "Тази сутрин отидох на пазара с брат си.",
        "Знаете ли къде е музеят?",
        "Храната в този ресторант е много вкусна.",
    ),
    "bn": ("আজ সকালে আমি ভাইয়ের সাথে বাজারে গিয়েছিলাম।", "জাদুঘরটি কোথায় জানেন?", "এই রেস্তোরাঁর খাবার খুব সুস্বাদু।"),
    "de": (
        "Heute Morgen bin ich mit meinem Bruder auf den Markt gegangen.",
        "Wissen Sie, wo das Museum ist?",
        "Das Essen in diesem Restaurant ist sehr lecker.",
    ),
    "en": (
        "This morning I went to the market with my brother.",
        "Do you know where the museum is?",
        "The food in this restaurant is very tasty.",
    ),
    "es": (
        "Esta mañana fui al mercado con mi hermano.",
        "¿Sabe usted dónde está el museo?",
        "La comida de este restaurante es muy rica.",
    ),
    "fa": (
        "امروز صبح با برادرم به بازار رفتم.",
        "آیا می‌دانید موزه کجاست؟",
        "غذای این رستوران خیلی خوشمزه است.",
    ),
    "fi": (
        "Tänä aamuna menin torille veljeni kanssa.",
        "Tiedätkö, missä museo on?",
        "Tämän ravintolan ruoka on hyvin maukasta.",
    ),
    "fr": (
        "Ce matin, je suis allé au marché avec mon frère.",
        "Savez-vous où se trouve le musée ?",
        "La nourriture de ce restaurant est très bonne.",
    ),
    "gu": (
        "આજે સવારે હું મારા ભાઈ સાથે બજાર ગયો હતો.",
        "શું તમે જાણો છો કે સંગ્રહાલય ક્યાં છે?",
        "આ રેસ્ટોરન્ટનો ખોરાક ખૂબ સ્વાદિષ્ટ છે.",
    ),
    "he": (
        "הבוקר הלכתי לשוק עם אחי.",
        "האם אתה יודע איפה המוזיאון?",
        "האוכל במסעדה הזאת טעים מאוד.",
    ),
    "hi": (
        "आज सुबह मैं अपने भाई के साथ बाज़ार गया था।",
        "क्या आप जानते हैं कि संग्रहालय कहाँ है?",
        "इस रेस्तराँ का खाना बहुत स्वादिष्ट है।",
    ),
    "it": (
        "Questa mattina sono andato al mercato con mio fratello.",
        "Sa dove si trova il museo?",
        "Il cibo di questo ristorante è molto buono.",
    ),
    "ja": (
        "今朝、兄と一緒に市場へ行きました。",
        "博物館がどこにあるか知っていますか。",
        "このレストランの料理はとてもおいしいです。",
    ),
    "kn": (
        "ಇಂದು ಬೆಳಿಗ್ಗೆ ನಾನು ನನ್ನ ಸಹೋದರನೊಂದಿಗೆ ಮಾರುಕಟ್ಟೆಗೆ ಹೋದೆ.",
        "ವಸ್ತುಸಂಗ್ರಹಾಲಯ ಎಲ್ಲಿದೆ ಎಂದು ನಿಮಗೆ ತಿಳಿದಿದೆಯೇ?",
        "ಈ ಹೋಟೆಲಿನ ಆಹಾರ ತುಂಬಾ ರುಚಿಯಾಗಿದೆ.",
    ),
    "ko": (
        "오늘 아침에 형과 함께 시장에 갔어요.",
        "박물관이 어디에 있는지 아세요?",
        "이 식당의 음식은 아주 맛있어요.",
    ),
    "ml": (
        "ഇന്ന് രാവിലെ ഞാൻ എന്റെ സഹോദരനോടൊപ്പം ചന്തയിൽ പോയി.",
        "മ്യൂസിയം എവിടെയാണെന്ന് അറിയാമോ?",
        "ഈ റെസ്റ്റോറന്റിലെ ഭക്ഷണം വളരെ രുചികരമാണ്.",
    ),
    "mr": (
        "आज सकाळी मी माझ्या भावासोबत बाजारात गेलो होतो.",
        "संग्रहालय कुठे आहे हे तुम्हाला माहीत आहे का?",
        "या उपाहारगृहातील जेवण खूप चविष्ट आहे.",
    ),
    "ne": (
        "आज बिहान म मेरो दाइसँग बजार गएको थिएँ।",
        "संग्रहालय कहाँ छ थाहा छ तपाईंलाई?",
        "यो रेस्टुरेन्टको खाना धेरै मीठो छ।",
    ),
    "pa": (
        "ਅੱਜ ਸਵੇਰੇ ਮੈਂ ਆਪਣੇ ਭਰਾ ਨਾਲ ਬਾਜ਼ਾਰ ਗਿਆ ਸੀ।",
        "ਕੀ ਤੁਸੀਂ ਜਾਣਦੇ ਹੋ ਕਿ ਅਜਾਇਬ ਘਰ ਕਿੱਥੇ ਹੈ?",
        "ਇਸ ਰੈਸਟੋਰੈਂਟ ਦਾ ਖਾਣਾ ਬਹੁਤ ਸੁਆਦੀ ਹੈ।",
    ),
    "pl": (
        "Dziś rano poszedłem na targ z moim bratem.",
        "Czy wie pan, gdzie jest muzeum?",
        "Jedzenie w tej restauracji jest bardzo smaczne.",
    ),
    "pt": (
        "Hoje de manhã fui ao mercado com o meu irmão.",
        "O senhor sabe onde fica o museu?",
        "A comida deste restaurante é muito saborosa.",
    ),
    "ru": (
        "Сегодня утром я пошёл на рынок с братом.",
        "Вы знаете, где находится музей?",
        "Еда в этом ресторане очень вкусная.",
    ),
    "sw": (
        "Leo asubuhi nilikwenda sokoni na kaka yangu.",
        "Je, unajua makumbusho iko wapi? Ni mbali sana na hapa.",
        "Chakula cha mgahawa huu ni kitamu sana.",
    ),
    "ta": (
        "இன்று காலை நான் என் சகோதரனுடன் சந்தைக்குச் சென்றேன்.",
        "அருங்காட்சியகம் எங்கே இருக்கிறது தெரியுமா?",
        "இந்த உணவகத்தின் உணவு மிகவும் சுவையாக இருக்கிறது.",
    ),
    "te": (
        "ఈ ఉదయం నేను నా సోదరుడితో మార్కెట్‌కు వెళ్ళాను.",
        "మ్యూజియం ఎక్కడ ఉందో మీకు తెలుసా?",
        "ఈ రెస్టారెంట్‌లో ఆహారం చాలా రుచిగా ఉంది.",
    ),
    "th": ("เมื่อเช้านี้ฉันไปตลาดกับพี่ชาย", "คุณรู้ไหมว่าพิพิธภัณฑ์อยู่ที่ไหน", "อาหารในร้านนี้อร่อยมาก"),
    "uk": (
        "Сьогодні вранці я пішов на ринок із братом.",
        "Чи знаєте ви, де музей?",
        "Їжа в цьому ресторані дуже смачна.",
    ),
    "ur": (
        "آج صبح میں اپنے بھائی کے ساتھ بازار گیا تھا۔",
        "کیا آپ جانتے ہیں کہ عجائب گھر کہاں ہے؟",
        "اس ریستوران کا کھانا بہت مزیدار ہے۔",
    ),
    "vi": (
        "Sáng nay tôi đi chợ với anh trai.",
        "Bạn có biết viện bảo tàng ở đâu không?",
        "Món ăn ở nhà hàng này rất ngon.",
    ),
}
