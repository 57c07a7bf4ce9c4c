"""Known texts by scores that know the neighbourhood of both sides: how near the texts of the other side are to each."""
