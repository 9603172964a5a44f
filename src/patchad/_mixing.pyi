BEST: int

def forward(
    x: int,
    out: int,
    weights: tuple[int, ...],
    sizes: tuple[int, int, int],
    hidden: int,
    strides: tuple[int, int],
    last: bool,
    gelu: bool,
    instructions: int,
    /,
) -> None: ...
