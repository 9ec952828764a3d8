"""Phrases of languages of Western Europe that take back what was said.

See `assay.verifiers.text.abroad.tongue`.
"""

from typing import Final

from assay.verifiers.text.abroad.tongue import Tongue

_COMES_FIRST: Final = r"(?=\s?[,.;:!\u2026\u2014\u2013-])"
"""`No, está mal` takes back what `no está mal` affirms: these languages leave `it` out."""

GERMAN: Final = Tongue(
    hints=(
        "falsch|fehler|rrt|korrekt|gnorier|vergiss|vergess|verwirf|verwerf|moment|warte|richtig|"
        "stopp|stimm|verrechn|vertan"
    ),
    waits=("(einen )?moment( mal)?", "warten? sie", "warte( mal)?", "stopp"),
    corrects="korrektur",
    leads=(
        "nein",
        "ach",
        "oh",
        "hm+",
        "ups",
        "hoppla",
        "aber",
        "doch",
        "sorry",
        "halt",
        "entschuldigung",
        "verzeihung",
        "leider",
        "tatsächlich",
        "eigentlich",
        "ich (glaube|denke|merke|sehe)( gerade| nun| jetzt)?",
    ),
    very="aber|ja|leider|doch|so|auch|noch|offensichtlich|natürlich|komplett|völlig",
    thing=(
        (
            "(mein|dies|jen)(e[nrs]?)? ((obige|vorige|vorherige|"
            "letzte)[nrs]? )?{noun}( von)?( oben)?"
        ),
        "(d(er|ie|as|en)|alle) (obige|vorige|vorherige|letzte)[nrs]? {noun}",
        "d(er|ie|as|en) {noun}( von)? oben",
    ),
    nouns={
        "antwort": "answer",
        "lösung": "solution",
        "ergebnis": "answer",
        "version": "version",
        "rechnung": "answer",
        "programm": "program",
        "funktion": "function",
        "block": "block",
        "abfrage": "query",
        "ausgabe": "output",
    },
    wrong=(
        (
            "(das|dies|es|da) (ist|war) {very}(falsch|unrichtig|inkorrekt|nicht (richtig|"
            "korrekt)|ein (fehler|irrtum))"
        ),
        "(das|dies|es|da) stimmt {very}nicht",
        "(das|dies|es) kann {very}nicht (stimmen|sein|richtig sein)",
    ),
    named=(
        ("{thing} (ist|war) {very}(falsch|unrichtig|inkorrekt|fehlerhaft|nicht (richtig|korrekt))"),
        "{thing} stimmt {very}nicht",
    ),
    drops=(
        (
            "(bitte )?(ignorier(en sie|t|e)?|vergiss|vergessen sie|verwirf|"
            "verwerfen sie) (bitte )?(das obige|das|dies|es|alles oben)"
        ),
    ),
    drops_named=(
        (
            "(bitte )?(ignorier(en sie|t|e)?|vergiss|vergessen sie|verwirf|"
            "verwerfen sie) (bitte )?{thing}"
        ),
    ),
    erred=(
        "ich habe mich (leider )?(geirrt|verrechnet|vertan|verlesen|verzählt)",
        "ich lag falsch",
        "mein fehler",
        "ich habe (da |hier |dabei |leider )?einen (\\w{1,12} )?fehler gemacht",
    ),
    again=(
        (
            "(lass(t|en sie)?|ich|wir)( (muss|müssen|werde|möchte|will|sollte|mich|uns|es|das|"
            "dies|noch|einmal|nochmals?|mal|neu|erneut|von|vorne?|überprüfen|prüfen?|nachprüfen|"
            "rechnen?|nachrechnen|überdenken|nachdenken|versuchen?|berechnen)){2,7}"
        ),
    ),
    right=(
        (
            "(es|das|dies|sie|alles|{thing}|d(er|ie|as) {noun}) (ist|war) (doch |schon |so |"
            "also |aber |trotzdem |ja ){0,3}(richtig|korrekt)"
        ),
        (
            "(es|das|dies|sie|alles|{thing}|d(er|ie|as) {noun}) (stimmt|passt|"
            "funktioniert)( doch| schon| so| also| ja){0,2}(?! ?nicht)"
        ),
    ),
    answers=(
        "(die|meine|unsere) ((richtige|korrekte|endgültige|finale) )?antwort (ist|lautet)( also)?",
        "die (richtige|korrekte) lösung (ist|lautet)",
    ),
    unless="wenn|falls|sofern|außer|es sei denn|nur|für|bei|solange",
    denies="nicht|kein|weder",
)
FRENCH: Final = Tongue(
    hints="faux|fausse|erreur|correct|juste|ignore|oubli|attend|instant|tromp|inexact|erron",
    waits=("attend(s|ez)", "un instant", "une minute"),
    corrects="correction|rectification",
    leads=(
        "non",
        "oh",
        "ah",
        "hm+",
        "euh",
        "oups",
        "mais",
        "désolée?",
        "pardon",
        "excusez-moi",
        "en fait",
        "malheureusement",
        "finalement",
        "je (crois|pense|vois) que",
    ),
    very="bien|complètement|totalement|clairement|en fait|donc",
    thing=(
        (
            "(ma|mon|cette|cet|ce) (dernière |dernier |précédente? )?{noun}( ci-dessus|"
            " précédente?)?"
        ),
        "(la |le |l'){noun} (ci-dessus|précédente?)",
    ),
    nouns={
        "réponse": "answer",
        "reponse": "answer",
        "solution": "solution",
        "résultat": "answer",
        "calcul": "answer",
        "programme": "program",
        "fonction": "function",
        "requête": "query",
        "version": "version",
        "bloc": "block",
        "sortie": "output",
    },
    wrong=(
        (
            "(c'est|c'était|cela est|cela était|ceci est|ça est) {very}(faux|incorrect|"
            "inexact|erroné|une erreur)"
        ),
        "ce n'est {very}pas (correct|juste|exact|vrai|bon|ça)",
        "c'est pas (correct|juste|ça)",
        "(cela|ça|ceci) ne (marche|fonctionne|tient|va) pas",
    ),
    named=(
        "{thing} (est|était) {very}(faux|fausse|incorrecte?|erronée?|inexacte?)",
        "{thing} n'est pas (correcte?|juste|exacte?|bonne|bon)",
    ),
    drops=("(veuillez )?(ignor|oubli)e[rz]?[ -](cela|ceci|ça|ce qui précède)",),
    drops_named=("(veuillez )?(ignor|oubli)e[rz]? {thing}",),
    erred=(
        "j'ai (fait|commis) une (\\w{1,12} )?erreur",
        "je me suis trompée?",
        "j'avais tort",
        "mon erreur",
    ),
    again=(
        (
            "(laisse[rz]?-moi|je (dois|vais)|reprenons|recalculons|vérifions)( (le|la|tout|à|"
            "nouveau|encore|une|fois|refaire|recalculer|revérifier|vérifier|reprendre|calcul|"
            "recommencer|réfléchir)){0,6}"
        ),
    ),
    right=(
        (
            "(c'est|cela est|elle est|il est|{thing} est|(la |le |l'){noun} est) (bien |"
            "donc |finalement |en fait |quand même )?(correcte?|juste|exacte?|bon|bonne|vrai)"
        ),
    ),
    answers=(
        "(la|ma|notre) (bonne )?réponse( (correcte|finale|exacte|juste|définitive))? est( donc)?",
    ),
    unless="si|sauf|quand|lorsque|seulement|pour|uniquement|dans",
    denies="pas|ni",
)
SPANISH: Final = Tongue(
    hints="correct|error|equivo|erróne|á mal|s mal|ignor|olvid|descart|esper|momento|fals|cierto",
    waits=("esper[ae](n|me|dme)?", "un momento"),
    corrects="corrección",
    leads=(
        f"no{_COMES_FIRST}",
        "oh",
        "ah",
        "hm+",
        "eh",
        "ups",
        "uy",
        "pero",
        "perdón",
        "disculpa",
        "lo siento",
        "en realidad",
        "de hecho",
        "(creo|veo) que",
    ),
    very="completamente|claramente|totalmente|realmente",
    thing=(
        "(mi|esta|este|esa|ese) (última |último |anterior )?{noun}( anterior| de arriba)?",
        "(la|el) (anterior {noun}|{noun} (anterior|de arriba))",
    ),
    nouns={
        "respuesta": "answer",
        "solución": "solution",
        "resultado": "answer",
        "cálculo": "answer",
        "programa": "program",
        "código": "code",
        "función": "function",
        "consulta": "query",
        "versión": "version",
        "bloque": "block",
        "salida": "output",
    },
    wrong=(
        (
            "((eso|esto|ello) )?(es|está|era|estaba) {very}(incorrecto|erróneo|equivocado|mal|"
            "falso|un error)"
        ),
        "((eso|esto) )?no (es|está) (correcto|bien|cierto|así|válido)",
        "(eso|esto) no (funciona|puede ser( correcto)?)",
    ),
    named=(
        (
            "{thing} (es|está|era|estaba) {very}(incorrect[oa]|erróne[oa]|equivocad[oa]|mal|"
            "fals[oa])"
        ),
        "{thing} no (es|está) (correct[oa]|bien)",
    ),
    drops=(
        ("(por favor,? )?(ignor|olvid|descart)(a|e|en|ad|ar) (eso|esto|lo (anterior|de arriba))"),
    ),
    drops_named=("(por favor,? )?(ignor|olvid|descart)(a|e|en|ad|ar) {thing}",),
    erred=(
        "me (he )?equivo(qué|cado)",
        "(he )?(cometí|cometido|hice|hecho) un (\\w{1,12} )?error",
        "estaba equivocad[oa]",
        "mi error",
    ),
    again=(
        (
            "(déj[ae]me|dejadme|voy a|tengo que|vamos a)( (lo|todo|de|nuevo|otra|vez|revisar|"
            "revisarlo|recalcular|calcular|comprobar|verificar|intentar|pensar|rehacer|rehacerlo|"
            "hacerlo|el|cálculo)){1,6}"
        ),
    ),
    right=(
        (
            "((eso|esto|{thing}|(la|el) {noun}) )?(sí )?(es|está) (sí |realmente )?(correct[oa]|"
            "bien|cierto)"
        ),
    ),
    answers=("(la|mi|nuestra) respuesta( (correcta|final|exacta|definitiva))? es( entonces)?",),
    unless="si|salvo|cuando|solo|sólo|solamente|para|en|excepto",
    denies="no",
)
PORTUGUESE: Final = Tongue(
    hints="errad|corret|erro|engan|ignor|esqueç|descart|esper|momento|equivoc|errei|calma",
    waits=("esper[ae]", "um momento", "calma"),
    corrects="correção",
    leads=(
        f"não{_COMES_FIRST}",
        "oh",
        "ah",
        "hm+",
        "ops",
        "opa",
        "mas",
        "desculpe?",
        "perdão",
        "na verdade",
        "infelizmente",
        "(acho|vejo) que",
    ),
    very="completamente|claramente|totalmente|realmente",
    thing=(
        "(minha|meu|esta|este|essa|esse) (última |último )?{noun}( anterior| acima)?",
        "(a|o) {noun} (anterior|acima)",
    ),
    nouns={
        "resposta": "answer",
        "solução": "solution",
        "resultado": "answer",
        "cálculo": "answer",
        "programa": "program",
        "código": "code",
        "função": "function",
        "consulta": "query",
        "versão": "version",
        "bloco": "block",
        "saída": "output",
    },
    wrong=(
        "((isso|isto) )?(é|está|estava|era) {very}(errado|incorreto|equivocado|um erro)",
        "((isso|isto) )?não (é|está) (correto|certo|verdade)",
        "(isso|isto) não (funciona|pode ser|pode estar certo)",
    ),
    named=(
        "{thing} (é|está|estava|era) {very}(errad[oa]|incorret[oa]|equivocad[oa])",
        "{thing} não (é|está) (corret[oa]|cert[oa])",
    ),
    drops=(
        (
            "(por favor,? )?((ignor|descart)(a|e|em|ar)|esqueçam?) (isso|isto|o (anterior|"
            "que está acima))"
        ),
    ),
    drops_named=("(por favor,? )?((ignor|descart)(a|e|em|ar)|esqueçam?) {thing}",),
    erred=(
        "(eu )?me enganei",
        "(eu )?cometi um (\\w{1,12} )?erro",
        "(eu )?(estava errad[oa]|errei)",
        "meu erro",
    ),
    again=(
        (
            "(deixe?-me|deixa eu|vou|vamos|preciso)( (tudo|de|novo|novamente|outra|vez|revisar|"
            "recalcular|calcular|verificar|tentar|pensar|refazer|os?|cálculos?)){1,6}"
        ),
    ),
    right=("((isso|isto|{thing}|(a|o) {noun}) )?(é|está) (sim |realmente )?(corret[oa]|cert[oa])",),
    answers=("(a|minha|nossa) resposta( (correta|certa|final|exata))? é( então)?",),
    unless="se|salvo|quando|só|somente|apenas|para|em|exceto",
    denies="não",
)
ITALIAN: Final = Tongue(
    hints="sbagli|errat|errore|corrett|giust|ignor|dimentic|scart|aspett|momento|attimo|torto",
    waits=("aspett[ai](te)?", "un (momento|attimo)"),
    corrects="correzione",
    leads=(
        "no",
        "oh",
        "ah",
        "hm+",
        "ops",
        "ma",
        "però",
        "scusa",
        "scusate",
        "mi dispiace",
        "in realtà",
        "purtroppo",
        "(credo|vedo) che",
    ),
    very="completamente|chiaramente|del tutto|davvero",
    thing=(
        (
            "(la mia|il mio|questa|questo|quella|quel) (ultima |ultimo )?{noun}( precedente|"
            "( qui)? sopra)?"
        ),
        "(la|il) {noun} (precedente|(qui )?sopra)",
    ),
    nouns={
        "risposta": "answer",
        "soluzione": "solution",
        "risultato": "answer",
        "calcolo": "answer",
        "programma": "program",
        "codice": "code",
        "funzione": "function",
        "versione": "version",
        "interrogazione": "query",
        "blocco": "block",
    },
    wrong=(
        "((questo|ciò|quello) )?(è|era) {very}(sbagliato|errato|scorretto|un errore|falso)",
        (
            "((questo|ciò|quello) )?non (è (corretto|giusto|vero)|va bene|funziona|"
            "può essere( giusto| corretto)?)"
        ),
    ),
    named=(
        "{thing} (è|era) {very}(sbagliat[oa]|errat[oa]|scorrett[oa])",
        "{thing} non è (corrett[oa]|giust[oa])",
    ),
    drops=("(per favore,? )?(ignor|dimentic|scart)(a|ate|are|i) (questo|ciò|quello|quanto sopra)",),
    drops_named=("(per favore,? )?(ignor|dimentic|scart)(a|ate|are|i) {thing}",),
    erred=(
        "mi sono sbagliat[oa]",
        "ho (fatto|commesso) un (\\w{1,12} )?errore",
        "avevo torto",
        "ho sbagliato",
    ),
    again=(
        (
            "(fammi|lasciami|lasciatemi|devo|vediamo|proviamo)( (di|nuovo|ancora|una|volta|"
            "ricontrollare|ricalcolare|calcolare|verificare|riprovare|rifare|rifarlo|controllare|"
            "pensare|il|calcolo)){0,6}"
        ),
    ),
    right=("((questo|ciò|{thing}|(la|il) {noun}) )?è (proprio |davvero )?(corrett[oa]|giust[oa])",),
    answers=("la( mia| nostra)? risposta( (corretta|finale|giusta|esatta))? è( quindi| dunque)?",),
    unless="se|salvo|quando|solo|soltanto|per|in|tranne",
    denies="non",
)
DUTCH: Final = Tongue(
    hints="fout|verkeerd|juist|klop|correct|negeer|vergeet|wacht|vergis|momentje",
    waits=("wacht( even)?", "momentje"),
    corrects="correctie",
    leads=(
        "nee",
        "oh",
        "ah",
        "hm+",
        "oeps",
        "maar",
        "sorry",
        "eigenlijk",
        "helaas",
        "ik (denk|zie) dat",
    ),
    very="helemaal|duidelijk|toch|dus|ook",
    thing=(
        "(mijn|deze|dit|die|dat) ((bovenstaande|vorige|laatste) )?{noun}( hierboven)?",
        "(de|het) (bovenstaande|vorige|laatste) {noun}",
        "(de|het) {noun} hierboven",
    ),
    nouns={
        "antwoord": "answer",
        "oplossing": "solution",
        "resultaat": "answer",
        "berekening": "answer",
        "programma": "program",
        "functie": "function",
        "versie": "version",
        "blok": "block",
    },
    wrong=(
        (
            "(dat|dit|het) (is|was) {very}(fout|verkeerd|onjuist|incorrect|niet (juist|correct|"
            "goed)|een (fout|vergissing))"
        ),
        "(dat|dit|het) klopt {very}niet",
        "(dat|dit|het) kan {very}niet (kloppen|zijn)",
    ),
    named=(
        "{thing} (is|was) {very}(fout|verkeerd|onjuist|incorrect|niet (juist|correct))",
        "{thing} klopt {very}niet",
    ),
    drops=("(negeer|vergeet) (het bovenstaande|dat|dit|het)",),
    drops_named=("(negeer|vergeet) {thing}",),
    erred=(
        "ik heb (me vergist|het fout|een (\\w{1,12} )?fout gemaakt)",
        "ik zat fout",
        "mijn fout",
    ),
    again=(
        (
            "(laat|ik|we)( (me|ons|moet|moeten|ga|zal|het|dit|dat|nog|eens|keer|een|opnieuw|"
            "controleren|narekenen|berekenen|rekenen|proberen|nadenken|nakijken)){2,7}"
        ),
    ),
    right=(
        "(dat|dit|het|{thing}|(de|het) {noun}) is (toch |wel ){0,2}(juist|correct|goed)",
        "(dat|dit|het|{thing}|(de|het) {noun}) klopt( toch| wel)?(?! ?niet)",
    ),
    answers=("(het|mijn|ons) ((juiste|correcte|uiteindelijke|goede) )?antwoord is( dus)?",),
    unless="als|tenzij|indien|alleen|wanneer|voor|bij",
    denies="niet|geen",
)
