"""From text to a graph: the language of `.expr` files.

    lexer     text        -> tokens               one regular expression, each distinct word classified once
    parser    tokens      -> statements           recovers at the end of a statement, reports one error for each
    syntax    what the parser makes: frozen statements, expressions as flat postfix code
    lower     statements  -> graph                names, functions, shapes: what the text means

Nothing here recurses with the input or evaluates any of it: only what the grammar names can be written.
"""
