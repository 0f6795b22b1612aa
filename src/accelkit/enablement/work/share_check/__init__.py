"""Program of the check pod: reads its share, opens its devices and computes with them."""
